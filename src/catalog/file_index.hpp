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
#include "catalog/open_context.hpp"
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
/// was opened in which order. Any thread.
class KeptIndices {
 public:
  struct Kept {
    /// By signature: the format and options that made them.
    std::map<std::string, std::shared_ptr<const FileIndex>> indices;
    /// That the files are of, where none is named: as they were saved, or as a look has shown. Empty: not
    /// known yet.
    std::string format;
  };

  [[nodiscard]] Kept get() const {
    const MutexLock lock(mutex_);
    return kept_;
  }
  /// `change(Kept&)` changes it.
  template <typename Change>
  void change(const Change& change) {
    const MutexLock lock(mutex_);
    change(kept_);
  }

 private:
  mutable Mutex mutex_;
  Kept kept_ ROTA_GUARDED_BY(mutex_);
};

/// Looks into a file, which is open and as it was listed; what it returns is kept.
using LookIntoFile = std::function<std::vector<std::byte>(DatasetFile& file)>;

/// **Collective** over the context of `files`, whose sizes are known. What `look` finds in each of them;
/// ranks and threads share the work, and files that an index of this signature has, and that are as they were
/// then, are not looked into, nor counted as progress. An empty signature: the index is not kept. Throws on
/// all ranks what `look` threw for the first file of those for which it threw.
std::shared_ptr<const FileIndex> index_files(const FileList& files, const std::string& signature,
                                             const LookIntoFile& look);

/// The same of values, which `look` returns: one for each file.
template <typename Found, typename Look>
std::vector<Found> look_into_files(const FileList& files, const std::string& signature, const Look& look) {
  const auto index =
      index_files(files, signature, [&](DatasetFile& file) { return serialize<Found>(look(file)); });
  std::vector<Found> found;
  for (std::size_t i = 0; i < index->files().size(); ++i) found.push_back(deserialize<Found>((*index)[i]));
  return found;
}

}  // namespace rota::internal
