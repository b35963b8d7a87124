#include "trace.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>

namespace rota::test {
namespace {

// Past our own interposed functions.
int open_raw(const std::string& path, int flags) {
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path.c_str(), flags | O_CREAT | O_CLOEXEC, 0644));
}

class Log {
 public:
  Log() {
    const char* directory = std::getenv("ROTA_FAULTS_TRACE");
    if (directory == nullptr) return;
    const std::string path = directory;
    log_ = open_raw(path + "/" + std::to_string(::getpid()) + ".trace", O_WRONLY | O_APPEND);
    const int counter = open_raw(path + "/sequence", O_RDWR);
    if (log_ < 0 || counter < 0 || ::syscall(SYS_ftruncate, counter, sizeof(Sequence)) != 0) fail();
    void* memory = ::mmap(nullptr, sizeof(Sequence), PROT_READ | PROT_WRITE, MAP_SHARED, counter, 0);
    ::syscall(SYS_close, counter);
    if (memory == MAP_FAILED) fail();
    sequence_ = static_cast<Sequence*>(memory);
  }

  bool is_on() const { return sequence_ != nullptr; }
  std::int64_t next() const { return sequence_->fetch_add(1); }
  void append(std::string_view record) const {
    if (::syscall(SYS_write, log_, record.data(), record.size()) != static_cast<std::int64_t>(record.size()))
      fail();
  }

 private:
  using Sequence = std::atomic<std::int64_t>;
  static_assert(Sequence::is_always_lock_free);

  // A trace with gaps is worse than none.
  [[noreturn]] static void fail() {
    std::perror("ROTA_FAULTS_TRACE");
    std::abort();
  }

  int log_ = -1;
  Sequence* sequence_ = nullptr;
};

const Log& process_log() {
  static const Log log;
  return log;
}

}  // namespace

Recording::Recording() {
  if (process_log().is_on()) begin_ = process_log().next();
}

void Recording::succeeded(const Event& event) const {
  if (!process_log().is_on()) return;
  const RecordHeader header{.begin = begin_,
                            .end = process_log().next(),
                            .call = event.call,
                            .fd = event.fd,
                            .offset = event.offset,
                            .flags = event.flags,
                            .path_bytes = static_cast<std::uint32_t>(event.path.size()),
                            .other_bytes = static_cast<std::uint32_t>(event.other.size()),
                            .data_bytes = static_cast<std::uint32_t>(event.data.size())};
  std::string record(reinterpret_cast<const char*>(&header), sizeof(header));
  for (const std::string_view part : {event.path, event.other, event.data}) record += part;
  process_log().append(record);
}

}  // namespace rota::test
