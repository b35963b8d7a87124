#pragma once

// The files of a dataset. A Catalog is made once, by one process or by all ranks together. Then a source
// opens it. Next: open.hpp.

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rota/fingerprint.hpp"
#include "rota/message.hpp"
#include "rota/storage.hpp"

namespace rota {

class Communicator;

/// What identifies the files of a dataset. It is part of the fingerprint, so choose before the first run: a
/// checkpoint made with the other is refused, as of another dataset.
enum class ChangeDetection {
  /// Names and sizes. Listing reads the size of each file. A file with another size later is an error.
  by_size,
  /// Names alone. Listing reads no sizes, which is several times faster. That a file was cut short or has
  /// grown goes unnoticed.
  by_name,
};

std::string_view to_string(ChangeDetection change_detection) noexcept;

/// How the bytes of files come from a file system. The samples are the same.
enum class Access {
  /// Through the page cache: best for what fits into memory, or is read by others, too.
  cached,
  /// Past the page cache (O_DIRECT), whole pages of 4,096 bytes: for data larger than memory. Files take two
  /// descriptors each. Deflated chunks come through the page cache, as does all on a file system without
  /// such reads.
  direct,
  /// From a mapping of each file: the fastest for small samples that are in the page cache, and slow for
  /// others. Nobody may truncate the files: reading past the new end raises SIGBUS, which ends the process.
  mapped,
  /// `direct` where the files, when opened, are larger than half of the memory and mostly not in the page
  /// cache; else `cached`.
  automatic,
};

std::string_view to_string(Access access) noexcept;

/// How a catalog is made.
struct CatalogOptions {
  ChangeDetection change_detection = ChangeDetection::by_size;
  int listing_threads = 8;         ///< of a rank, to read directories and sizes; up to 4,096
  int indexing_threads = 8;        ///< of a rank, to look into files, one each; up to 4,096
  int max_open_files = 256;        ///< of a rank, kept open; files that are being read may come on top
  Access access = Access::cached;  ///< of formats with many samples in a file
  /// Storages by scheme: "mine" for paths such as "mine://corpus". The same on all ranks.
  Storages storages = {};
  /// Each file is copied once into memory that a node's ranks share, and read from it: for distant files.
  /// Files compressed as a whole are always decompressed into it. A Loader over such a dataset needs
  /// LoaderOptions::interleave. For formats with many samples in a file.
  bool share_files = false;
  /// Memory of a node for shared files that no loader needs now, or one such file if it is larger; for 256 of
  /// them at most. Files in use come on top. Files that all ranks have passed stay for the next epoch, as far
  /// as they fit.
  std::int64_t shared_memory_limit = std::int64_t{1} << 30;
  /// Holds shared files in place of memory: a directory on a local disk, such as an NVMe drive. The files
  /// have no names there (O_TMPFILE), and are gone with the job, however it ends. They are mapped: a disk
  /// that fails ends the process by SIGBUS. Jobs may share one, and ranks may name different ones.
  std::filesystem::path shared_directory = {};
  /// Memory of a process for decoded chunks of each HDF5 dataset that is opened. What a Loader will need
  /// soonest is kept, so that a chunk is decoded once for all its rows. Buffers of threads come on top.
  std::int64_t decoded_bytes = std::int64_t{256} << 20;
  /// Lists hidden names (".x"), too, and those that programs leave: "x~", "#x#", "x.crc", "Thumbs.db",
  /// "desktop.ini", "__MACOSX", "_SUCCESS", "_metadata".
  bool all_names = false;
  /// So many files may be passed over, as WebDataset's handlers do; a message names each: those of a list or
  /// of ranges that are missing, and those that a format cannot read, or finds damaged, when it looks into
  /// them. The dataset is then one without them. Rank 0's. `files` looks into none, from_pattern lists none.
  int max_bad_files = 0;
  /// Called on each rank with the progress of its part of listing and indexing; may be null.
  ProgressFunction progress = {};

  /// Throws Error{invalid_argument} naming the option that is out of its range.
  void validate() const;
};

/// The folder of file i, from 0, of N generated files in F folders.
enum class FolderLayout {
  round_robin,  ///< in folder i % F
  blocks,       ///< in folder floor(i F / N)
  restart,      ///< N / F in each folder, whose indices begin anew
};

std::string_view to_string(FolderLayout layout) noexcept;

/// The numbers in generated names.
struct PatternOptions {
  std::int64_t files = 0;    ///< of all folders, up to 2^40; 0: the {total} in their names
  std::int64_t folders = 0;  ///< up to 2^22; needed if the pattern has {folder}
  FolderLayout layout = FolderLayout::round_robin;

  /// Throws Error{invalid_argument} naming the option that is out of its range.
  void validate() const;
};

/// Changes to the files of a saved catalog since it was saved.
struct CatalogChanges {
  std::int64_t changed = 0;   ///< other sizes, or written to; 0 under ChangeDetection::by_name
  std::int64_t resized = 0;   ///< of these, with other sizes
  std::int64_t vanished = 0;  ///< no longer present
  std::int64_t appeared = 0;  ///< new
  std::string first;          ///< the name of one of them; of a resized or vanished one, if there is any

  [[nodiscard]] bool any() const noexcept { return changed + vanished + appeared > 0; }
};

class Catalog;
namespace internal {
class FileList;
struct CatalogContents;
const FileList& files_of(const Catalog& catalog) noexcept;
}  // namespace internal

/// The regular files of a dataset, in order. *Immutable.* Copies are cheap and share it; a move copies. It
/// keeps what sources find in its files: the next one need not look, and `save` writes it. It keeps its
/// options. Any thread. A catalog of several ranks: one thread, and it ends before MPI does.
class Catalog {
 public:
  /// `path` is one of
  ///
  /// - "data": a file, or a directory with all files below it; symbolic links are followed,
  /// - "data/*.tar": a glob (`*`, `?`, `[...]`, as in a shell),
  /// - "{a,b}/x-{0000..0999}.tar": words and ranges. They need no list; each file must exist, once,
  /// - "s3://bucket/train": see CatalogOptions::storages and object_storage.hpp,
  /// - "data.rota": a file that `save` wrote, with its own `change_detection` and `all_names`. It is compared
  ///   with the files as they are now: `changes`. Changed files are indexed again. It cannot be opened while
  ///   files have vanished or have other sizes: save it, and load it again.
  ///
  /// The order is by the bytes of names relative to the directory; of ranges, as written. With `comm`,
  /// **collective** over it, which is duplicated: its ranks make the catalog together, and later open it
  /// together. Rank 0 alone reads directories. Blocks on storage. Throws Error{not_found} for a missing path
  /// or no file in it, Error{io} naming an unreadable entry, Error{unsupported} for a cycle of symbolic
  /// links, Error{corrupt} for a damaged saved catalog.
  explicit Catalog(const std::filesystem::path& path, const CatalogOptions& options = {});
  template <std::convertible_to<std::filesystem::path> Path>
  Catalog(const Path& path)  // NOLINT: so that a path can be given for a catalog
      : Catalog(std::filesystem::path(path), CatalogOptions()) {}
  Catalog(const Communicator& comm, const std::filesystem::path& path, const CatalogOptions& options = {});

  /// The files that `manifest` lists, in its order. A line is `a.tar`, or `{"path": "a.tar", "samples": 100}`
  /// for a file that must have 100 samples. Paths are absolute, or relative to the manifest's directory; or
  /// all are URLs of one scheme ("s3://bucket/x"). They go into the fingerprint as written, without the
  /// scheme. Empty lines are ignored. **Collective** as above. Throws as above, Error{invalid_argument} for a
  /// wrong line, a path listed twice, and a manifest that is no regular file (a pipe cannot be read again).
  /// Under ChangeDetection::by_size, throws Error{io} for a path that is no regular file.
  static Catalog from_manifest(const std::filesystem::path& manifest, const CatalogOptions& options = {});
  static Catalog from_manifest(const Communicator& comm, const std::filesystem::path& manifest,
                               const CatalogOptions& options = {});

  /// These files, as a manifest lists them; paths are relative to the working directory. Cannot be saved.
  static Catalog from_paths(const std::vector<std::string>& paths, const CatalogOptions& options = {});
  static Catalog from_paths(const Communicator& comm, const std::vector<std::string>& paths,
                            const CatalogOptions& options = {});

  /// Files with names computed from `pattern`, such as "train/{folder:02}/img_{index:08}_of_{total}.npz". Its
  /// fields are `{index}`, `{folder}` and `{total}` (number of files). `{index:08}` has 8 digits,
  /// `{index+1:08}` begins at 1, and so on; `{{` and `}}` are braces. The number of files is
  /// PatternOptions::files, or {total} in their names; it is never guessed. No directory is listed, but up to
  /// 10,000 names of one are read for {total}, and for an error's text. Names take no memory. Their order is
  /// by index; where each folder restarts the index, by folder, then index. Changes are detected by name,
  /// whatever `options` say. The fingerprint is of pattern and numbers: another than of the same files
  /// listed. Formats that look into files read all sizes, and keep a table of them.
  ///
  /// A sample of up to 2,997 files is looked for. That notices any gap of 1 / 1,497 of all files, and with a
  /// probability of 95 % that one in 1,000 is missing here and there. Another missing file is an error when
  /// it is read. Surplus files are looked for beside each of up to 2,997 folders, and past both ends.
  ///
  /// **Collective** as above. Throws Error{invalid_argument} for an invalid pattern or options, and for
  /// surplus files, Error{not_found} for missing ones, Error{io} for forbidden or unreachable ones,
  /// Error{mismatch} for options that differ between ranks.
  static Catalog from_pattern(const std::string& pattern, const PatternOptions& pattern_options = {},
                              const CatalogOptions& options = {});
  static Catalog from_pattern(const Communicator& comm, const std::string& pattern,
                              const PatternOptions& pattern_options = {}, const CatalogOptions& options = {});

  Catalog(const Catalog&) = default;
  Catalog& operator=(const Catalog&) = default;
  ~Catalog() = default;

  /// The number of files.
  [[nodiscard]] std::int64_t size() const noexcept;
  /// The path of file i, as a user would write it. Throws Error{out_of_range}.
  [[nodiscard]] std::string path(std::int64_t i) const;
  [[nodiscard]] ChangeDetection change_detection() const noexcept;
  /// The size of file i, in bytes, when it was listed. Throws as `path` does, and Error{invalid_argument}
  /// under ChangeDetection::by_name.
  [[nodiscard]] std::int64_t bytes(std::int64_t i) const;
  /// Of names; under ChangeDetection::by_size also of sizes.
  [[nodiscard]] Fingerprint fingerprint() const;

  /// Writes the catalog to `file`, replacing what is there, with all that sources have found so far. `file`
  /// may be an object whose name ends in ".rota": "s3://bucket/data.rota". Files are named relative to
  /// `origin`. `format` is the one that `open` will take; "auto" is the one that was saved or recognised
  /// before, or else `open` looks. Rank 0 writes. **Collective.** Throws Error{io}; the former file is then
  /// untouched, unless only the last fsync failed. Throws Error{invalid_argument} for an unknown
  /// format, and for a file inside the dataset, a symbolic link, directory or device. Throws
  /// Error{unsupported} for a generated catalog, and Error{mismatch} if ranks name different files or
  /// formats.
  void save(const std::filesystem::path& file, const std::string& format = "auto") const;

  /// The catalog as bytes for another process, with all that sources have found so far. Of generated
  /// catalogs, too. Paths are absolute from then on. Not collective. Throws Error{io} where the working
  /// directory is gone.
  [[nodiscard]] std::string serialize() const;
  /// The catalog of such bytes, with its own `change_detection`, for this process alone. Asks for no file;
  /// the directory must exist. Throws Error{corrupt} for any other bytes, those of another version included,
  /// and Error{not_found}, Error{io} naming the directory.
  static Catalog deserialize(std::string_view bytes, const CatalogOptions& options = {});

  /// The changes of the files, found when a saved catalog was loaded.
  [[nodiscard]] const CatalogChanges& changes() const noexcept;
  /// The absolute path of the file, directory, glob, manifest or pattern that it was made of.
  [[nodiscard]] const std::string& origin() const noexcept;

 private:
  friend const internal::FileList& internal::files_of(const Catalog& catalog) noexcept;
  explicit Catalog(internal::CatalogContents contents);
  std::shared_ptr<const internal::CatalogContents> contents_;
};

}  // namespace rota
