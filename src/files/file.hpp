#pragma once

// Files that are written, or that hold a checkpoint: the calls of the system, all of which a test can make
// fail; an open file, and what is done with names and directories; a file while it is being written.

#include <fcntl.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace rota::internal {

/// The system calls themselves, with their own conventions: -1 and errno on failure, unless said otherwise.
/// *Any thread.*
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  /// Never waits for the other end of a FIFO, nor takes a terminal; sets O_CLOEXEC.
  virtual int open(const char* path, int flags, mode_t mode) const;
  virtual int close(int fd) const;
  virtual ssize_t pread(int fd, void* out, std::size_t bytes, off_t at) const;
  virtual ssize_t pwrite(int fd, const void* data, std::size_t bytes, off_t at) const;
  virtual int fsync(int fd) const;
  /// Returns the error number, 0 for none.
  virtual int fallocate(int fd, off_t bytes) const;
  virtual int flock(int fd, int operation) const;
  virtual std::int64_t size(int fd) const;
  /// S_IFREG and its like, of what is open, and of what `path` leads to; 0 and errno on failure.
  virtual mode_t type(int fd) const;
  virtual mode_t type_of(const char* path) const;
  virtual bool is_link(const char* path) const;
  virtual int rename(const char* from, const char* to) const;
  virtual int unlink(const char* path) const;
  virtual int access(const char* path, int mode) const;
  /// Whether files in `directory` are of NFS, and of several clients, who may write a page of which they
  /// changed a part.
  virtual bool writes_whole_pages(const char* directory, bool are_several) const;
  /// Makes `path` and what leads to it; there already is no failure.
  virtual int make_directories(const std::filesystem::path& path) const;
  /// The names in `directory`, in any order.
  virtual int list(const std::filesystem::path& directory, std::vector<std::string>& names) const;
};

/// The file system of this machine.
[[nodiscard]] const FileSystem& posix_file_system() noexcept;

/// What `path` is: "a file", "a FIFO", "a link to nothing", ...; empty where nothing is there, or where that
/// cannot be asked.
[[nodiscard]] std::string_view what_is(const FileSystem& system, const std::string& path);

/// What came of asking for a lock.
enum class Lock { taken, taken_elsewhere, not_supported };

/// An open file, closed when it dies. Move-only; its calls throw Error{io} naming the path, and repeat short
/// and interrupted transfers.
class File {
 public:
  File() noexcept = default;
  /// Opens a file, or with O_DIRECTORY a directory. Throws Error{corrupt}, saying what it is, for anything
  /// else than a regular file: what is open is looked at, not what has its name.
  File(const FileSystem& system, std::string path, int flags, mode_t mode = 0666);
  ~File();
  File(File&& other) noexcept { *this = std::move(other); }
  File& operator=(File&& other) noexcept;

  /// Fills `out`; throws Error{corrupt} where the file ends before.
  void read(std::uint64_t at, std::span<std::byte> out) const;
  void write(std::uint64_t at, std::span<const std::byte> data) const;
  void allocate(std::uint64_t bytes) const;
  void sync() const;
  /// Closes now, checked. Not to be called twice.
  void close();
  [[nodiscard]] std::uint64_t size() const;
  /// The lock goes with this object, also where a forked child has the file open, too.
  [[nodiscard]] Lock try_lock();
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] bool is_open() const noexcept { return fd_ >= 0; }

 private:
  File(const FileSystem& system, std::string path) noexcept : system_(&system), path_(std::move(path)) {}
  void require_regular() const;

  const FileSystem* system_ = nullptr;
  std::string path_;
  int fd_ = -1;
  bool is_locked_ = false;
};
static_assert(std::is_nothrow_move_constructible_v<File> && std::is_nothrow_move_assignable_v<File>);

/// The names in `directory`. Throws Error{io}.
[[nodiscard]] std::vector<std::string> list_names(const FileSystem& system,
                                                  const std::filesystem::path& directory);

/// Makes `path` and what leads to it, as far as it is not there. When it returns, `path` is on disk, whoever
/// made it. Throws Error{io}, Error{not_found}.
void make_directory(const FileSystem& system, const std::filesystem::path& path);

/// A new file that is deleted unless it is published.
class Temporary {
 public:
  /// Creates `path` and locks it, which tells other jobs that it is in use. Throws Error{io}.
  Temporary(const FileSystem& system, const std::filesystem::path& path);
  ~Temporary();
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  [[nodiscard]] const File& file() const noexcept { return file_; }

  /// Makes the file durable, gives it its name, and makes that durable. `directory` is open. On failure
  /// neither name is left. Throws Error{io}.
  void publish(const std::filesystem::path& name, const File& directory);
  /// The same in the place of what may have that name. A failure leaves what was there; where the directory
  /// is what fails, the new file.
  void replace(const std::filesystem::path& name, const File& directory);

 private:
  void rename_to(const std::filesystem::path& name);

  const FileSystem* system_;
  File file_;
  std::string name_;  // that the file has now; empty once it is published
};

/// Whether nobody writes the temporary `path` any more. Where there are no locks, nobody can tell: false.
bool is_dead(const FileSystem& system, const std::string& path);

/// Writes a file of lines. Each is in the operating system's hands when the call returns, so that a killed
/// process loses at most the one it was writing. Move-only; *one thread*.
class LineWriter {
 public:
  /// Creates the file. Throws Error{io}, also where there is such a file already; Error{not_found}.
  explicit LineWriter(const std::filesystem::path& path)
      : file_(posix_file_system(), path.native(), O_WRONLY | O_CREAT | O_EXCL) {}

  [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }
  [[nodiscard]] bool is_open() const noexcept { return file_.is_open(); }
  /// Adds a line. Throws Error{io}; called again, it takes the place of what was written of it.
  void append(std::string line) {
    line.push_back('\n');
    file_.write(bytes_, std::as_bytes(std::span(line)));
    bytes_ += line.size();
  }
  /// Throws Error{io} where a file system tells only now that something was not written.
  void close() { file_.close(); }
  /// Takes the file away again.
  void remove() const noexcept { posix_file_system().unlink(path().c_str()); }

 private:
  File file_;
  std::uint64_t bytes_ = 0;  // of whole lines
};

}  // namespace rota::internal
