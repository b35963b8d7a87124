#pragma once

// How many system calls that read a thread has made, as Linux counts them.

#include "test.hpp"

namespace rota::test {

/// Calls of this thread since it began: read, pread, readv, preadv. Looking costs some, always as many.
inline std::int64_t read_calls() {
  std::ifstream file("/proc/thread-self/io");
  std::string word;
  std::int64_t value = 0;
  while (file >> word >> value) {
    if (word == "syscr:") return value;
  }
  throw std::runtime_error("read /proc/thread-self/io: no syscr in it");
}

/// Those that `work` makes.
template <typename Work>
std::int64_t read_calls_of(Work work) {
  const std::int64_t first = read_calls();
  const std::int64_t looking = read_calls() - first;
  const std::int64_t before = read_calls();
  work();
  return read_calls() - before - looking;
}

}  // namespace rota::test
