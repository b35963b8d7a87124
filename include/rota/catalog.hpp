#pragma once

// Which files make a dataset. A Catalog is made once, by one process or by all ranks together, and then
// opened by a source. Next: open.hpp.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "rota/fingerprint.hpp"

namespace rota {

namespace mpi {
class Communicator;
}

/// How far a task has come, on the rank that is told.
struct Progress {
  std::string_view task;    ///< "list files", "index files", ...
  std::int64_t done = 0;    ///< files dealt with by this rank
  std::int64_t total = 0;   ///< files there are for it; 0: not known yet
  std::int64_t failed = 0;  ///< of those done
  double seconds = 0;       ///< since the task began
  bool is_over = false;     ///< the last call for this task
};

/// Called about ten times a second, and once at the end of a task, on the thread that called the function
/// which takes long. What it throws ends the task as an error.
using ProgressFunction = std::function<void(const Progress& progress)>;

/// What the files of a dataset are known by, in its fingerprint and when they are read. A checkpoint of the
/// same files known otherwise is refused, as that of another dataset.
enum class ChangeDetection {
  /// Names and sizes: each file is asked for its size when it is listed, and one that has changed it since
  /// is an error.
  by_size,
  /// Names alone: listing asks the files nothing, which is several times faster. A file is asked for its size
  /// when it is read; that it was cut short or has grown goes unnoticed.
  by_name,
};

std::string_view to_string(ChangeDetection change_detection) noexcept;

/// How a catalog is made.
struct CatalogOptions {
  ChangeDetection change_detection = ChangeDetection::by_size;
  int listing_threads = 8;   ///< of a rank, up to 4,096, that read directories, and ask for sizes
  int indexing_threads = 8;  ///< of a rank, up to 4,096, that look into files, each into one of its own
  /// Of a rank and list of files, kept open for reading; those that are being read may come on top.
  int max_open_files = 256;
  /// Whether files are copied into memory that the ranks of a node share, and read from there: once for all
  /// of them, where they are far away. Files that are compressed as a whole are unpacked there anyhow. A
  /// Loader over such a dataset needs LoaderOptions::interleave. For formats with many samples in a file.
  bool share_files = false;
  /// Memory of a node that keeps shared files of this dataset which no loader needs now, or one if it is
  /// larger; those that are needed come on top. What all ranks are done with is dropped anyhow.
  std::int64_t shared_memory_limit = std::int64_t{1} << 30;
  /// Told, on each rank, how far its part of listing and indexing is; null: nobody is. Kept by the catalog,
  /// for when it is opened.
  ProgressFunction progress = {};

  /// Throws Error{invalid_argument} naming the option that is out of its range.
  void validate() const;
};

/// Which file of a generated catalog lies in which folder: file i of N, counted from 0, in F folders.
enum class FolderLayout {
  round_robin,  ///< in folder i % F
  blocks,       ///< in folder floor(i F / N)
  restart,      ///< N / F in each folder, whose indices begin anew
};

std::string_view to_string(FolderLayout layout) noexcept;

/// The numbers of generated names, and how sure one is to be that the files are there.
struct PatternOptions {
  std::int64_t files = 0;        ///< of all folders; 0: as {total} in their names says
  std::int64_t first_index = 0;  ///< of the first file
  std::int64_t folders = 0;      ///< to be given where the pattern has {folder}
  std::int64_t first_folder = 0;
  FolderLayout layout = FolderLayout::round_robin;
  double confidence = 0.95;         ///< the probability with which validation notices
  double missing_fraction = 0.001;  ///< that this part of the files, or more, is missing
  std::uint64_t seed = 0;           ///< of the sample that is asked for

  /// Throws Error{invalid_argument} naming the option that is out of its range.
  void validate() const;
};

/// What has become of the files of a saved catalog since.
struct CatalogChanges {
  std::int64_t changed = 0;   ///< other sizes, or written to; not known where changes are detected by name
  std::int64_t vanished = 0;  ///< there no more
  std::int64_t appeared = 0;  ///< new
  std::string first;          ///< the name of one of them

  [[nodiscard]] bool any() const noexcept { return changed + vanished + appeared > 0; }
};

class Catalog;
namespace internal {
class FileList;
const FileList& files_of(const Catalog& catalog) noexcept;
}  // namespace internal

/// The regular files of a dataset, in order. *Immutable*; copies are cheap and share it, and to move one is
/// to copy it. What sources find in the files is kept with it, by format and options: a cache, that spares
/// the next source a look into them, and that `save` writes. Any thread, and several may open it at once;
/// where it was made by several ranks, one thread, and it lives no longer than MPI runs.
class Catalog {
 public:
  /// The file `path`, all files under directory `path`, or those that match the glob `path` (`*`, `?`,
  /// `[...]`, as in a shell), in the byte-wise order of their names relative to the directory. Symbolic links
  /// are followed. A file that `save` wrote is loaded instead, with the `change_detection` that it was saved
  /// with: what it holds is compared with what is there, and what has changed since is listed, and later
  /// indexed, anew.
  ///
  /// With `comm`, **collective** over it, which is duplicated: its ranks make the catalog together, and then
  /// open it together. Rank 0 alone reads directories, and the others get what it finds. Without it this
  /// process does it alone. Blocks on storage. Throws Error{not_found} for a missing path or
  /// nothing there, Error{io} naming an entry that cannot be read, Error{unsupported} for a cycle of symbolic
  /// links, Error{corrupt} for a saved catalog that is damaged.
  explicit Catalog(const std::filesystem::path& path, const CatalogOptions& options = {});
  Catalog(const mpi::Communicator& comm, const std::filesystem::path& path,
          const CatalogOptions& options = {});

  /// The files that `manifest` lists, in its order: a path on each line, or a JSON object on each with a
  /// string `path` and, if it likes, a number `samples`, which the file must then have. Paths are relative to
  /// the manifest's directory, or absolute, and go into the fingerprint as they are written. Empty lines are
  /// passed over. **Collective** as above. Throws as above; Error{invalid_argument} for a manifest that is no
  /// regular file, such as a pipe, which could not be read again, and naming a line that is wrong, or has the
  /// path of another; Error{io} naming a path that is no regular file, where changes are detected by size.
  static Catalog from_manifest(const std::filesystem::path& manifest, const CatalogOptions& options = {});
  static Catalog from_manifest(const mpi::Communicator& comm, const std::filesystem::path& manifest,
                               const CatalogOptions& options = {});

  /// Files whose names are computed from `pattern`, a path with the fields `{index}`, `{index:08}` (filled up
  /// with zeros to 8 digits), `{folder}`, `{total}` (of files), and `{{`, `}}` for braces, as in
  /// "train/{folder:02}/img_{index:08}_of_{total}.npz". How many files there are is never guessed: it is
  /// PatternOptions::files, or stands in their names. No directory is listed: up to 10,000 names of one are
  /// looked at for {total}, and for the text of an error. Names take no memory. Their order is by index;
  /// where each folder counts anew, by folder, then by index. Changes are detected by name, whatever
  /// `options` say. The fingerprint is of the pattern and its numbers, and not that of the same files listed.
  /// Formats that look into files ask each for its size, and so make a table of them.
  ///
  /// The first and the last file are asked for, and one at random in each of k equal parts of the
  /// others, k = ceil(log(1 - confidence) / log(1 - missing_fraction)), but at least 200; all files, where
  /// there are no more. So files that are missing one behind the other are noticed for certain from 2 / k of
  /// all on, or 1 %; others as PatternOptions say. One that is missing and was not asked for is an error when
  /// it is read. As many folders are asked for, and the names just behind and before theirs; and further
  /// ones, up to a distance of 8 one by one, then in doubling steps. More files than that are noticed unless
  /// all of them lie between those names. **Collective** as above. Throws Error{invalid_argument} for a
  /// pattern or options that are not clear, and where there are more files, Error{not_found} where files are
  /// missing, Error{io} where they are forbidden or unreachable.
  static Catalog from_pattern(const std::string& pattern, const PatternOptions& pattern_options = {},
                              const CatalogOptions& options = {});
  static Catalog from_pattern(const mpi::Communicator& comm, const std::string& pattern,
                              const PatternOptions& pattern_options = {}, const CatalogOptions& options = {});

  Catalog(const Catalog&) = default;
  Catalog& operator=(const Catalog&) = default;
  ~Catalog() = default;

  /// Files.
  [[nodiscard]] std::int64_t size() const noexcept;
  /// Where file i is, as a user would write it. Throws Error{out_of_range} for a file that there is not.
  [[nodiscard]] std::string path(std::int64_t i) const;
  [[nodiscard]] ChangeDetection change_detection() const noexcept;
  /// How many bytes file i had when it was listed. Throws as `path` does, and Error{invalid_argument} where
  /// changes are detected by name.
  [[nodiscard]] std::int64_t bytes(std::int64_t i) const;
  /// Of names, and of sizes where changes are detected by size.
  [[nodiscard]] Fingerprint fingerprint() const;

  /// Writes what is known of the files into one file, in the place of one that is there: with all that
  /// sources have found in them so far, and the format that `open` is to take for them by itself. "auto": the
  /// one that was saved or recognised before, or else a look decides when it is opened. What was opened in
  /// which order makes no difference. Files are named from the place that `origin` tells. Rank 0 writes.
  /// **Collective.** Throws Error{io}, and what was there is untouched, but where only the last fsync fails;
  /// Error{invalid_argument} for a place among the files themselves, for one where there is a symbolic link,
  /// a directory, a device or the like, and for an unknown format; Error{unsupported} for a generated
  /// catalog.
  void save(const std::filesystem::path& file, const std::string& format = "auto") const;
  /// What had become of the files when a saved catalog was loaded.
  [[nodiscard]] const CatalogChanges& changes() const noexcept;
  /// The absolute path of the file, directory, glob, manifest or pattern that it was first made of.
  [[nodiscard]] const std::string& origin() const noexcept;

 private:
  struct Contents;
  friend const internal::FileList& internal::files_of(const Catalog& catalog) noexcept;
  explicit Catalog(std::shared_ptr<const Contents> contents);
  std::shared_ptr<const Contents> contents_;
};

}  // namespace rota
