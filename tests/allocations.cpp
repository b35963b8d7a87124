#include "allocations.hpp"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>

namespace {

constexpr auto kNoLimit = std::numeric_limits<std::size_t>::max();

thread_local std::ptrdiff_t mine = 0;
thread_local std::ptrdiff_t my_most = 0;
thread_local std::size_t my_largest = 0;
thread_local std::size_t granted = kNoLimit;

std::atomic<std::ptrdiff_t> held = 0;
std::atomic<std::ptrdiff_t> most = 0;
std::ptrdiff_t before = 0;

// `alignment` is 0 for that of malloc. nullptr where there is no memory.
void* take(std::size_t bytes, std::size_t alignment = 0) {
  my_largest = std::max(my_largest, bytes);
  if (bytes > granted) return nullptr;
  void* const memory = alignment == 0
                           ? std::malloc(bytes)
                           : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  const auto taken = static_cast<std::ptrdiff_t>(malloc_usable_size(memory));
  mine += taken;
  my_most = std::max(my_most, mine);
  const std::ptrdiff_t now = held += taken;
  for (std::ptrdiff_t was = most; was < now && !most.compare_exchange_weak(was, now);) {
  }
  return memory;
}

void* take_or_throw(std::size_t bytes, std::size_t alignment = 0) {
  void* const memory = take(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void give_back(void* memory) {
  const auto given = static_cast<std::ptrdiff_t>(malloc_usable_size(memory));
  mine -= given;
  held -= given;
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t bytes) { return take_or_throw(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t& /*nothrow*/) noexcept { return take(bytes); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return take_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { give_back(memory); }
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  give_back(memory);
}

namespace rota::test {

void watch_memory() { mine = my_most = 0, my_largest = 0; }
Memory watched_memory() { return {.most = static_cast<std::size_t>(my_most), .largest = my_largest}; }

void watch_held_memory() { most = before = held; }
std::ptrdiff_t held_memory() { return held - before; }
std::size_t most_held_memory() { return static_cast<std::size_t>(most - before); }

void grant_no_more_than(std::size_t bytes) { granted = bytes; }
void grant_all() { granted = kNoLimit; }

}  // namespace rota::test
