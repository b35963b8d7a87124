// A library for LD_PRELOAD: stands before the I/O calls of the C library that rota and HDF5 make, for the
// whole process, and does to one of them what rota_faults_arm says. Only paths under ROTA_FAULTS_UNDER
// and descriptors opened there count. Calls go on to the kernel directly, so that nothing has to be looked up
// while the process starts.

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>

#include "faults.hpp"
#include "trace.hpp"

namespace {

using rota::test::Call;
using rota::test::Event;
using rota::test::Kind;
using rota::test::Recording;

// ---- which calls count ----

constexpr int kMaxDescriptors = 1 << 16;
std::array<std::atomic<bool>, kMaxDescriptors> tracked;

bool is_tracked(int fd) { return fd >= 0 && fd < kMaxDescriptors && tracked[static_cast<std::size_t>(fd)]; }
void track(int fd, bool on) {
  if (fd >= 0 && fd < kMaxDescriptors) tracked[static_cast<std::size_t>(fd)] = on;
}

std::string path_of(int fd) {
  std::array<char, PATH_MAX> path{};
  const std::string link = fd == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/" + std::to_string(fd);
  const std::int64_t size = ::syscall(SYS_readlinkat, AT_FDCWD, link.c_str(), path.data(), path.size());
  return size < 0 ? std::string() : std::string(path.data(), static_cast<std::size_t>(size));
}

std::string absolute(int directory, const char* path) {
  return *path == '/' ? std::string(path) : path_of(directory) + "/" + path;
}

bool is_under(const std::string& path) {
  static const char* const root = std::getenv("ROTA_FAULTS_UNDER");
  if (root == nullptr || !path.starts_with(root)) return false;
  const std::string_view rest = std::string_view(path).substr(std::strlen(root));
  return rest.empty() || rest.front() == '/';
}

// ---- the fault ----

std::atomic<bool> armed;
std::atomic<std::int64_t> fault_at;
std::atomic<int> fault_kind;
std::atomic<std::int64_t> calls;
constexpr std::int64_t kMaxNames = 1 << 16;
std::array<std::atomic<const char*>, kMaxNames> names;

bool takes_space(std::string_view name) {
  return name == "create" || name == "write" || name == "allocate" || name == "truncate" || name == "mkdir";
}

bool is_hit(std::string_view name, std::int64_t number, Kind kind) {
  if (kind == Kind::broken || (kind == Kind::full && takes_space(name))) return number >= fault_at;
  return number == fault_at;
}

// What is to become of this call.
Kind next(const char* name) {
  if (!armed) return Kind::count;
  const std::int64_t number = calls++;
  if (number < kMaxNames) names[static_cast<std::size_t>(number)] = name;
  const auto kind = static_cast<Kind>(fault_kind.load());
  if (fault_at < 0 || !is_hit(name, number, kind)) return Kind::count;
  if (kind == Kind::kill) ::kill(::getpid(), SIGKILL);
  if (kind == Kind::late) std::this_thread::sleep_for(rota::test::kLateness);
  return kind == Kind::late ? Kind::count : kind;
}

int error_of(Kind kind) {
  if (kind == Kind::enospc || kind == Kind::full) return ENOSPC;
  return kind == Kind::eintr ? EINTR : EIO;
}

int fail(Kind kind) {
  errno = error_of(kind);
  return -1;
}

// A call that is done as a whole or not at all, by `work`.
template <typename Work>
int whole(const char* name, const Event& event, Work&& work) {
  const Kind kind = next(name);
  if (kind == Kind::dropped) return 0;
  if (kind != Kind::count) return fail(kind);
  const Recording recording;
  const auto result = static_cast<int>(work());
  if (result == 0) recording.succeeded(event);
  return result;
}

// ---- the calls ----

// Nothing can be handed out for a dropped one: it fails with EIO.
int open_at(int directory, const char* path, int flags, mode_t mode) {
  const auto really = [&] {
    return static_cast<int>(::syscall(SYS_openat, directory, path, flags | O_LARGEFILE, mode));
  };
  const std::string full = absolute(directory, path);
  if (!is_under(full)) {
    const int fd = really();
    track(fd, false);  // whatever it was before
    return fd;
  }
  const Kind kind = next((flags & O_CREAT) != 0 ? "create" : "open");
  if (kind != Kind::count) return fail(kind);
  const Recording recording;
  const int fd = really();
  if (fd >= 0) recording.succeeded({.call = Call::open, .fd = fd, .flags = flags, .path = full});
  track(fd, true);
  return fd;
}

// In all cases it closes.
int close_descriptor(int fd) {
  const auto really = [&] { return static_cast<int>(::syscall(SYS_close, fd)); };
  if (!is_tracked(fd)) return really();
  const Kind kind = next("close");
  track(fd, false);
  const int result = really();
  return kind == Kind::count || kind == Kind::dropped ? result : fail(kind);
}

// `at` < 0: where the descriptor stands.
ssize_t write_at(int fd, const void* data, std::size_t bytes, off_t at) {
  const auto really = [&](std::size_t count) {
    return at < 0 ? ::syscall(SYS_write, fd, data, count) : ::syscall(SYS_pwrite64, fd, data, count, at);
  };
  if (!is_tracked(fd)) return really(bytes);
  const Kind kind = next("write");
  if (kind == Kind::dropped) return static_cast<ssize_t>(bytes);
  if (kind != Kind::count && kind != Kind::partial) return fail(kind);
  const off_t offset = at < 0 ? ::lseek(fd, 0, SEEK_CUR) : at;
  const Recording recording;
  const ssize_t result = really(kind == Kind::partial ? (bytes + 1) / 2 : bytes);
  if (result <= 0) return result;
  const std::string_view written(static_cast<const char*>(data), static_cast<std::size_t>(result));
  recording.succeeded({.call = Call::write, .fd = fd, .offset = offset, .data = written});
  return result;
}

// A dropped one leaves the memory as it is.
ssize_t read_at(int fd, void* out, std::size_t bytes, off_t at) {
  if (is_tracked(fd)) {
    const Kind kind = next("read");
    if (kind == Kind::dropped) return static_cast<ssize_t>(bytes);
    if (kind == Kind::partial) bytes = (bytes + 1) / 2;
    if (kind != Kind::count && kind != Kind::partial) return fail(kind);
  }
  return at < 0 ? ::syscall(SYS_read, fd, out, bytes) : ::syscall(SYS_pread64, fd, out, bytes, at);
}

int sync(int fd, std::int64_t number) {
  const auto really = [&] { return ::syscall(number, fd); };
  if (!is_tracked(fd)) return static_cast<int>(really());
  return whole("fsync", {.call = Call::sync, .fd = fd}, really);
}

int resize(int fd, off_t size) {
  const auto really = [&] { return ::syscall(SYS_ftruncate, fd, size); };
  if (!is_tracked(fd)) return static_cast<int>(really());
  return whole("truncate", {.call = Call::resize, .fd = fd, .offset = size}, really);
}

// Returns an error number. The C library's own knows what to do where the file system cannot allot.
int allocate(int fd, off_t at, off_t bytes) {
  using Function = int (*)(int, off_t, off_t);
  static const auto really = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "posix_fallocate"));
  if (!is_tracked(fd)) return really(fd, at, bytes);
  const Kind kind = next("allocate");
  if (kind == Kind::dropped) return 0;
  if (kind == Kind::partial) return really(fd, at, (bytes + 1) / 2), ENOSPC;
  if (kind != Kind::count) return error_of(kind);
  const Recording recording;
  const int error = really(fd, at, bytes);
  if (error == 0) recording.succeeded({.call = Call::allocate, .fd = fd, .offset = at + bytes});
  return error;
}

int rename_to(const char* from, const char* to) {
  const auto really = [&] { return ::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0); };
  const std::string source = absolute(AT_FDCWD, from);
  const std::string target = absolute(AT_FDCWD, to);
  if (!is_under(source) && !is_under(target)) return static_cast<int>(really());
  return whole("rename", {.call = Call::rename, .path = source, .other = target}, really);
}

int unlink_at(int directory, const char* path, int flags) {
  const auto really = [&] { return ::syscall(SYS_unlinkat, directory, path, flags); };
  const std::string full = absolute(directory, path);
  if (!is_under(full)) return static_cast<int>(really());
  return whole("unlink", {.call = Call::unlink, .path = full}, really);
}

int make_directory(const char* path, mode_t mode) {
  const auto really = [&] { return ::syscall(SYS_mkdirat, AT_FDCWD, path, mode); };
  const std::string full = absolute(AT_FDCWD, path);
  if (!is_under(full)) return static_cast<int>(really());
  return whole("mkdir", {.call = Call::make_directory, .path = full}, really);
}

// Locks leave no trace.
template <typename Work>
int lock(int fd, Work&& work) {
  const Kind kind = is_tracked(fd) ? next("lock") : Kind::count;
  if (kind == Kind::dropped) return 0;
  return kind == Kind::count ? static_cast<int>(work()) : fail(kind);
}

int control(int fd, int command, void* argument) {
  const auto really = [&] { return ::syscall(SYS_fcntl, fd, command, argument); };
  const bool locks =
      command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK || command == F_OFD_SETLKW;
  return locks ? lock(fd, really) : static_cast<int>(really());
}

template <typename Function>
Function* after_us(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

// ---- the names by which they are called ----

// NOLINTBEGIN(readability-identifier-naming, readability-inconsistent-declaration-parameter-name): the C
// library's names.

extern "C" {

void rota_faults_arm(std::int64_t at, int kind) {
  calls = 0;
  fault_at = at;
  fault_kind = kind;
  armed = true;
}
void rota_faults_disarm() { armed = false; }
std::int64_t rota_faults_count() { return calls; }
const char* rota_faults_call(std::int64_t i) { return names.at(static_cast<std::size_t>(i)); }
void rota_faults_mark(std::int64_t value) { Recording().succeeded({.call = Call::mark, .offset = value}); }

int openat(int directory, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open_at(directory, path, flags, mode);
}
int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open_at(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) __attribute__((alias("open")));
int openat64(int directory, const char* path, int flags, ...) __attribute__((alias("openat")));
int __open_2(const char* path, int flags) { return open_at(AT_FDCWD, path, flags, 0); }
int close(int fd) { return close_descriptor(fd); }

ssize_t write(int fd, const void* data, std::size_t bytes) { return write_at(fd, data, bytes, -1); }
ssize_t pwrite(int fd, const void* data, std::size_t bytes, off_t at) {
  return write_at(fd, data, bytes, at);
}
ssize_t pwrite64(int fd, const void* data, std::size_t bytes, off_t at) __attribute__((alias("pwrite")));
// One by one where it counts: each is a call of its own then.
ssize_t writev(int fd, const iovec* parts, int count) {
  if (!is_tracked(fd)) return ::syscall(SYS_writev, fd, parts, count);
  ssize_t total = 0;
  for (int i = 0; i < count; ++i) {
    const ssize_t result = write_at(fd, parts[i].iov_base, parts[i].iov_len, -1);
    if (result < 0) return total > 0 ? total : result;
    total += result;
    if (result < static_cast<ssize_t>(parts[i].iov_len)) break;
  }
  return total;
}

ssize_t read(int fd, void* out, std::size_t bytes) { return read_at(fd, out, bytes, -1); }
ssize_t pread(int fd, void* out, std::size_t bytes, off_t at) { return read_at(fd, out, bytes, at); }
ssize_t pread64(int fd, void* out, std::size_t bytes, off_t at) { return read_at(fd, out, bytes, at); }

int fsync(int fd) { return sync(fd, SYS_fsync); }
int fdatasync(int fd) { return sync(fd, SYS_fdatasync); }

int ftruncate(int fd, off_t size) noexcept { return resize(fd, size); }
int ftruncate64(int fd, off_t size) noexcept { return resize(fd, size); }

int posix_fallocate(int fd, off_t at, off_t bytes) { return allocate(fd, at, bytes); }
int posix_fallocate64(int fd, off_t at, off_t bytes) { return allocate(fd, at, bytes); }
int fallocate(int fd, int mode, off_t at, off_t bytes) {
  if (!is_tracked(fd) || mode != 0) return static_cast<int>(::syscall(SYS_fallocate, fd, mode, at, bytes));
  const int error = allocate(fd, at, bytes);
  if (error != 0) errno = error;
  return error == 0 ? 0 : -1;
}
int fallocate64(int fd, int mode, off_t at, off_t bytes) { return fallocate(fd, mode, at, bytes); }

int rename(const char* from, const char* to) noexcept { return rename_to(from, to); }
int unlink(const char* path) noexcept { return unlink_at(AT_FDCWD, path, 0); }
int unlinkat(int directory, const char* path, int flags) noexcept {
  return unlink_at(directory, path, flags);
}
int mkdir(const char* path, mode_t mode) noexcept { return make_directory(path, mode); }

int flock(int fd, int operation) noexcept {
  return lock(fd, [&] { return ::syscall(SYS_flock, fd, operation); });
}
int fcntl(int fd, int command, ...) {
  va_list rest;
  va_start(rest, command);
  void* argument = va_arg(rest, void*);
  va_end(rest);
  return control(fd, command, argument);
}
int fcntl64(int fd, int command, ...) __attribute__((alias("fcntl")));

DIR* opendir(const char* path) {
  static const auto really = after_us<DIR*(const char*)>("opendir");
  if (!is_under(absolute(AT_FDCWD, path))) return really(path);
  const Kind kind = next("open");
  if (kind != Kind::count) return fail(kind), nullptr;
  DIR* directory = really(path);
  if (directory != nullptr) track(::dirfd(directory), true);
  return directory;
}
// No entry can be left out without a word: that is an error as well.
dirent* readdir(DIR* directory) {
  static const auto really = after_us<dirent*(DIR*)>("readdir");
  const Kind kind = is_tracked(::dirfd(directory)) ? next("readdir") : Kind::count;
  if (kind != Kind::count) return fail(kind), nullptr;
  return really(directory);
}
dirent64* readdir64(DIR* directory) { return reinterpret_cast<dirent64*>(readdir(directory)); }
int closedir(DIR* directory) {
  static const auto really = after_us<int(DIR*)>("closedir");
  track(::dirfd(directory), false);
  return really(directory);
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming, readability-inconsistent-declaration-parameter-name)
