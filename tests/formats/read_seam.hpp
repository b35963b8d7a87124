#pragma once

// Stands before the calls by which this program reads files: notes those of a thread, and lets one of them
// fail. For one source of a program.

#include <dlfcn.h>
#include <libaio.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "test.hpp"

namespace rota::test {

/// `look`: a preadv2 that does not wait. `wait`: pread, or a preadv2 that does.
enum class ReadCall { look, hint, wait, set_up, submit, collect };

enum class ReadFault {
  none,
  fails,        ///< EIO; of what is collected, each read
  is_short,     ///< does a part
  interrupted,  ///< EINTR
  refused,      ///< EAGAIN
};

namespace read_seam {

struct Plan {
  ReadCall call = ReadCall::look;
  std::int64_t number = -1;
  ReadFault fault = ReadFault::none;
  std::vector<ReadCall> made;
};
inline thread_local Plan plan;
inline std::atomic<std::uint64_t> random_calls = 0;
inline std::atomic<std::uint64_t> random_one_in = 0;
inline std::int64_t memory_bytes = 0;

inline ReadFault next(ReadCall call) {
  const bool is_meant = call == plan.call && std::ranges::count(plan.made, call) == plan.number;
  plan.made.push_back(call);
  if (is_meant) return plan.fault;
  const std::uint64_t one_in = random_one_in;
  if (one_in == 0) return ReadFault::none;
  std::mt19937_64 random(random_calls++);
  return random() % one_in == 0 ? static_cast<ReadFault>(1 + random() % 4) : ReadFault::none;
}

/// Sets errno where this call fails; 0 where it does not.
inline int error_of(ReadFault fault) {
  switch (fault) {
    case ReadFault::fails:
      return errno = EIO;
    case ReadFault::interrupted:
      return errno = EINTR;
    case ReadFault::refused:
      return errno = EAGAIN;
    default:
      return 0;
  }
}

}  // namespace read_seam

/// From here on, call `number` (from 0) of this kind of this thread does as `fault` says; none is noted yet.
inline void arm_reads(ReadCall call, std::int64_t number, ReadFault fault) {
  read_seam::plan = {call, number, fault, {}};
}
inline void disarm_reads() { arm_reads(ReadCall::look, -1, ReadFault::none); }
/// From here on, of the calls of all threads one in `one_in` does as some fault says, by this seed; none,
/// where that is 0.
inline void fail_reads_at_random(std::uint64_t seed, std::uint64_t one_in) {
  read_seam::random_calls = seed << 32U;
  read_seam::random_one_in = one_in;
}
/// The calls of this thread since `arm_reads`.
inline const std::vector<ReadCall>& calls_made() { return read_seam::plan.made; }
/// How much memory the machine says that it has; 0: what it has.
inline void pretend_memory(std::int64_t bytes) { read_seam::memory_bytes = bytes; }

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name, google-runtime-int,
// misc-definitions-in-headers): the C libraries' own
extern "C" {

long get_phys_pages() noexcept {
  static auto* const real = reinterpret_cast<long (*)()>(::dlsym(RTLD_NEXT, "get_phys_pages"));
  return read_seam::memory_bytes > 0 ? read_seam::memory_bytes / 4096 : real();
}

ssize_t pread(int fd, void* to, std::size_t bytes, off_t at) {
  const ReadFault fault = read_seam::next(ReadCall::wait);
  if (read_seam::error_of(fault) != 0) return -1;
  return ::syscall(SYS_pread64, fd, to, fault == ReadFault::is_short ? (bytes + 1) / 2 : bytes, at);
}

ssize_t preadv2(int fd, const iovec* parts, int count, off_t at, int flags) {
  const ReadFault fault = read_seam::next((flags & RWF_NOWAIT) != 0 ? ReadCall::look : ReadCall::wait);
  if (read_seam::error_of(fault) != 0) return -1;
  return ::syscall(SYS_preadv2, fd, parts, fault == ReadFault::is_short ? (count + 1) / 2 : count, at, 0,
                   flags);
}

int posix_fadvise(int fd, off_t at, off_t bytes, int advice) {
  if (read_seam::next(ReadCall::hint) != ReadFault::none) return EIO;
  return static_cast<int>(::syscall(SYS_fadvise64, fd, at, bytes, advice));
}

int io_setup(int events, io_context_t* context) {
  if (read_seam::next(ReadCall::set_up) != ReadFault::none) return -EAGAIN;
  return ::syscall(SYS_io_setup, events, context) == 0 ? 0 : -errno;
}

int io_submit(io_context_t context, long count, iocb** blocks) {
  const ReadFault fault = read_seam::next(ReadCall::submit);
  if (const int error = read_seam::error_of(fault)) return -error;
  if (fault == ReadFault::is_short) count = (count + 1) / 2;
  const auto taken = ::syscall(SYS_io_submit, context, count, blocks);
  return taken >= 0 ? static_cast<int>(taken) : -errno;
}

int io_getevents(io_context_t context, long least, long most, io_event* events, timespec* timeout) {
  const ReadFault fault = read_seam::next(ReadCall::collect);
  if (fault == ReadFault::interrupted) return -EINTR;
  const auto count = ::syscall(SYS_io_getevents, context, least, most, events, timeout);
  if (count < 0) return -errno;
  for (io_event* event = events; event < events + count; ++event) {
    if (fault == ReadFault::fails) event->res = static_cast<unsigned long>(-EIO);
    if (fault == ReadFault::is_short) event->res /= 2;
  }
  return static_cast<int>(count);
}

}  // extern "C"
// NOLINTEND(readability-inconsistent-declaration-parameter-name, google-runtime-int,
// misc-definitions-in-headers)

}  // namespace rota::test
