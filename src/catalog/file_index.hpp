#pragma once

// What was found in the files of a dataset: made once, then shared, kept and saved.

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "catalog/listing.hpp"
#include "core/mutex.hpp"
#include "files/dataset_file.hpp"
#include "mpi/node_buffer.hpp"

namespace rota::internal {

class FileList;

/// What a format has found in each of some files, as bytes that it alone understands; each begins at a
/// multiple of eight bytes. One stretch, to be read where it lies. *Immutable.*
class FileIndex {
 public:
  /// `bytes` are one or more packed parts, of all `files` together. Throws Error{corrupt} where they are not.
  FileIndex(std::shared_ptr<const Listing> files, NodeBuffer bytes);

  [[nodiscard]] std::span<const std::byte> operator[](std::size_t file) const noexcept {
    return found_[file];
  }
  /// The files, as they were when they were looked into.
  [[nodiscard]] const Listing& files() const noexcept { return *files_; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_.bytes; }

 private:
  std::shared_ptr<const Listing> files_;
  NodeBuffer bytes_;
  std::vector<std::span<const std::byte>> found_;
};

/// A part of an index: of files one behind the other.
std::vector<std::byte> encode_part(std::span<const std::vector<std::byte>> files);

/// What opening the files of a catalog has found, so that it is found once: a cache that does not show what
/// was opened in which order. Indices are by signature: the format and options that made them. Any thread.
class KeptIndices {
 public:
  using Map = std::map<std::string, std::shared_ptr<const FileIndex>>;

  /// Takes what was saved.
  void load(Map indices, std::string format);
  [[nodiscard]] Map all() const;
  [[nodiscard]] std::shared_ptr<const FileIndex> find(const std::string& signature) const;
  void keep(const std::string& signature, std::shared_ptr<const FileIndex> index);

  /// The format that the files are of, where none is named: as they were saved, or as a look has shown.
  /// Empty: not known yet.
  [[nodiscard]] std::string format() const;
  void set_format(std::string format);

 private:
  mutable Mutex mutex_;
  Map indices_ ROTA_GUARDED_BY(mutex_);
  std::string format_ ROTA_GUARDED_BY(mutex_);
};

/// Looks into a file, which is open and as it was listed; what it returns is kept.
using LookIntoFile = std::function<std::vector<std::byte>(DatasetFile& file)>;

/// **Collective** over the context of `files`, whose sizes are known. What `look` finds in each of them;
/// ranks and threads share the work, and files that an index of this signature has, and that are as they were
/// then, are not looked into, nor counted as progress. An empty signature: the index is not kept. Throws on
/// all ranks what `look` threw for the first file of those for which it threw.
std::shared_ptr<const FileIndex> index_files(const FileList& files, const std::string& signature,
                                             const LookIntoFile& look);

}  // namespace rota::internal
