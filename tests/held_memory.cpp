#include "held_memory.hpp"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::ptrdiff_t> held = 0;
std::atomic<std::ptrdiff_t> most = 0;
std::ptrdiff_t before = 0;

void* count(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  const std::ptrdiff_t now = held += static_cast<std::ptrdiff_t>(malloc_usable_size(memory));
  for (std::ptrdiff_t was = most; was < now && !most.compare_exchange_weak(was, now);) {
  }
  return memory;
}

void give_back(void* memory) {
  held -= static_cast<std::ptrdiff_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t bytes) { return count(std::malloc(bytes)); }
void* operator new(std::size_t bytes, const std::nothrow_t& /*nothrow*/) noexcept {
  try {
    return operator new(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  const auto align = static_cast<std::size_t>(alignment);
  return count(std::aligned_alloc(align, (bytes + align - 1) / align * align));
}
void operator delete(void* memory) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { give_back(memory); }
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  give_back(memory);
}

namespace rota::test {

void watch_held_memory() { most = before = held; }
std::ptrdiff_t held_memory() { return held - before; }
std::size_t most_held_memory() { return static_cast<std::size_t>(most - before); }

}  // namespace rota::test
