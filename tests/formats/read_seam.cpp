#include <dlfcn.h>
#include <libaio.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "formats/read_seam.hpp"
#include "test.hpp"

namespace {

using rota::test::ReadCall;
using rota::test::ReadFault;

struct Plan {
  ReadCall call = ReadCall::look;
  std::int64_t number = -1;
  ReadFault fault = ReadFault::none;
  std::vector<ReadCall> made;
};
thread_local Plan plan;
std::int64_t memory_bytes = 0;

std::atomic<std::uint64_t> random_calls = 0;
std::atomic<std::uint64_t> random_one_in = 0;

ReadFault random_fault() {
  const std::uint64_t one_in = random_one_in;
  if (one_in == 0) return ReadFault::none;
  std::mt19937_64 random(random_calls++);
  constexpr std::array kFaults{ReadFault::fails, ReadFault::is_short, ReadFault::interrupted,
                               ReadFault::refused};
  return random() % one_in == 0 ? kFaults[random() % kFaults.size()] : ReadFault::none;
}

ReadFault next(ReadCall call) {
  const bool is_meant =
      call == plan.call && std::count(plan.made.begin(), plan.made.end(), call) == plan.number;
  plan.made.push_back(call);
  return is_meant ? plan.fault : random_fault();
}

int error_of(ReadFault fault) {
  return fault == ReadFault::fails ? EIO : fault == ReadFault::interrupted ? EINTR : EAGAIN;
}
bool has_error(ReadFault fault) { return fault != ReadFault::none && fault != ReadFault::is_short; }

}  // namespace

namespace rota::test {

void arm_reads(ReadCall call, std::int64_t number, ReadFault fault) { plan = {call, number, fault, {}}; }
void fail_reads_at_random(std::uint64_t seed, std::uint64_t one_in) {
  random_calls = seed << 32U;
  random_one_in = one_in;
}
const std::vector<ReadCall>& calls_made() { return plan.made; }
void pretend_memory(std::int64_t bytes) { memory_bytes = bytes; }

}  // namespace rota::test

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name, google-runtime-int): the C libraries' own
extern "C" {

long get_phys_pages() noexcept {
  static auto* const real = reinterpret_cast<long (*)()>(::dlsym(RTLD_NEXT, "get_phys_pages"));
  return memory_bytes > 0 ? memory_bytes / 4096 : real();
}

ssize_t pread(int fd, void* to, std::size_t bytes, off_t at) {
  const ReadFault fault = next(ReadCall::wait);
  if (has_error(fault)) {
    errno = error_of(fault);
    return -1;
  }
  return ::syscall(SYS_pread64, fd, to, fault == ReadFault::is_short ? (bytes + 1) / 2 : bytes, at);
}

ssize_t preadv2(int fd, const iovec* parts, int count, off_t at, int flags) {
  const ReadFault fault = next((flags & RWF_NOWAIT) != 0 ? ReadCall::look : ReadCall::wait);
  if (has_error(fault)) {
    errno = error_of(fault);
    return -1;
  }
  return ::syscall(SYS_preadv2, fd, parts, fault == ReadFault::is_short ? (count + 1) / 2 : count, at, 0,
                   flags);
}

int posix_fadvise(int fd, off_t at, off_t bytes, int advice) {
  const ReadFault fault = next(ReadCall::hint);
  if (fault != ReadFault::none) return EIO;
  return static_cast<int>(::syscall(SYS_fadvise64, fd, at, bytes, advice));
}

int io_setup(int events, io_context_t* context) {
  if (next(ReadCall::set_up) != ReadFault::none) return -EAGAIN;
  return ::syscall(SYS_io_setup, events, context) == 0 ? 0 : -errno;
}

int io_submit(io_context_t context, long count, iocb** blocks) {
  const ReadFault fault = next(ReadCall::submit);
  if (has_error(fault)) return -error_of(fault);
  if (fault == ReadFault::is_short) count = (count + 1) / 2;
  const auto taken = ::syscall(SYS_io_submit, context, count, blocks);
  return taken >= 0 ? static_cast<int>(taken) : -errno;
}

int io_getevents(io_context_t context, long least, long most, io_event* events, timespec* timeout) {
  const ReadFault fault = next(ReadCall::collect);
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
// NOLINTEND(readability-inconsistent-declaration-parameter-name, google-runtime-int)
