#pragma once

// How much memory a piece of work takes from operator new, which counting_memory.cpp replaces.

#include <cstddef>

namespace rota::test {

/// What was taken since `watch_memory`: the most at one time, and the largest request, granted or not.
struct Memory {
  std::size_t most = 0;
  std::size_t largest = 0;
};

/// *One thread.*
void watch_memory();
Memory watched_memory();

}  // namespace rota::test
