#include "storage/scarce_memory.hpp"

#include <cstdlib>
#include <limits>
#include <new>

namespace {

constexpr auto kNoLimit = std::numeric_limits<std::size_t>::max();

// Of each thread alone: others, such as MPI's, take their own.
thread_local std::size_t most_bytes = kNoLimit;

}  // namespace

void* operator new(std::size_t bytes) {
  void* const memory = bytes <= most_bytes ? std::malloc(bytes) : nullptr;
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }

namespace rota::test {

void grant_no_more_than(std::size_t bytes) { most_bytes = bytes; }
void grant_all() { most_bytes = kNoLimit; }

}  // namespace rota::test
