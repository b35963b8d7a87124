#include "counting_memory.hpp"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace {

// Of the watching thread alone: others, such as a debugger's, take their own.
thread_local std::ptrdiff_t held = 0;
thread_local std::ptrdiff_t most_held = 0;
thread_local std::size_t largest_asked = 0;

}  // namespace

void* operator new(std::size_t bytes, const std::nothrow_t& /*nothrow*/) noexcept {
  largest_asked = std::max(largest_asked, bytes);
  void* const memory = std::malloc(bytes);
  held += static_cast<std::ptrdiff_t>(malloc_usable_size(memory));
  most_held = std::max(most_held, held);
  return memory;
}

void* operator new(std::size_t bytes) {
  void* const memory = operator new(bytes, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void operator delete(void* memory) noexcept {
  held -= static_cast<std::ptrdiff_t>(malloc_usable_size(memory));
  std::free(memory);
}

void operator delete(void* memory, std::size_t /*bytes*/) noexcept { operator delete(memory); }

namespace rota::test {

void watch_memory() { held = most_held = 0, largest_asked = 0; }

Memory watched_memory() { return {.most = static_cast<std::size_t>(most_held), .largest = largest_asked}; }

}  // namespace rota::test
