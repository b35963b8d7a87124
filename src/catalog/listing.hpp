#pragma once

// The names of files by number, wherever they are kept, what the files were like when they were listed, and
// what was found in them: made once, then shared, kept and saved.

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "catalog/location.hpp"
#include "catalog/name_pattern.hpp"
#include "catalog/name_table.hpp"
#include "catalog/open_context.hpp"
#include "core/mutex.hpp"
#include "files/dataset_file.hpp"
#include "ranks/node_buffer.hpp"

namespace rota::internal {

/// Files by number: all names in a table, and what is known of each file, or nothing at all; or names that
/// are computed. *Immutable.*
class Listing {
 public:
  /// Reads names. Of computed ones, it must not outlive the listing. *One thread.*
  class Reader {
   public:
    Reader(std::shared_ptr<NameReader> table, const NameSeries* series)
        : table_(std::move(table)), series_(series) {}
    /// Name i, which ends in a zero byte, until the next call. Fast where i follows the one before. Throws
    /// Error{corrupt}.
    const std::string& operator[](std::size_t i);

   private:
    std::shared_ptr<NameReader> table_;  // null: names are computed
    const NameSeries* series_;
    std::string name_;
  };

  Listing(NameTable names, NodeBuffer stats);
  /// These take no memory for each name, and nothing is known of the files.
  explicit Listing(NameSeries series) : series_(std::move(series)) {}

  [[nodiscard]] std::size_t size() const noexcept {
    return is_computed() ? static_cast<std::size_t>(series_.files) : names_.size();
  }
  [[nodiscard]] std::unique_ptr<Reader> read_names() const;
  /// Only where changes are detected by size. Any thread.
  [[nodiscard]] FileStat stat(std::size_t i) const;

  /// Whether names are computed, and in no table.
  [[nodiscard]] bool is_computed() const noexcept { return readers_ == nullptr; }
  /// Of one that is computed.
  [[nodiscard]] const NameSeries& series() const noexcept { return series_; }
  /// Of one that is not; else no names.
  [[nodiscard]] const NameTable& names() const noexcept { return names_; }
  [[nodiscard]] std::span<const std::byte> stats() const noexcept { return stats_.bytes; }
  /// The number of each name, of one that is not computed.
  [[nodiscard]] std::unordered_map<std::string, std::size_t> numbers() const;
  /// Whether tables list the same files, which are as they were.
  friend bool operator==(const Listing& a, const Listing& b) noexcept;

 private:
  class Readers;

  NameSeries series_;
  NameTable names_;
  NodeBuffer stats_;  // a FileStat each
  std::shared_ptr<Readers> readers_;
};

class FileList;

/// What a format has found in each of some files, as bytes that it alone understands; each begins at a
/// multiple of eight bytes. One stretch, to be read where it lies. *Immutable.*
class FileIndex {
 public:
  /// `bytes` are one or more encoded parts, of all `files` together. Throws Error{corrupt} where they are
  /// not.
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
/// all ranks what `look` threw for the first file of those for which it threw; or `files` become those for
/// which it did not, as CatalogOptions::max_bad_files allows.
std::shared_ptr<const FileIndex> index_files(FileList& files, const std::string& signature,
                                             const LookIntoFile& look);

/// The same of values, which `look` returns: one for each file.
template <typename Found, typename Look>
std::vector<Found> look_into_files(FileList& files, const std::string& signature, const Look& look) {
  const auto index =
      index_files(files, signature, [&](DatasetFile& file) { return serialize<Found>(look(file)); });
  std::vector<Found> found;
  for (std::size_t i = 0; i < index->files().size(); ++i) found.push_back(deserialize<Found>((*index)[i]));
  return found;
}

}  // namespace rota::internal
