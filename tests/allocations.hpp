#pragma once

// What is taken from operator new, which allocations.cpp replaces where it is linked.

#include <cstddef>

namespace rota::test {

/// Begins to watch what this thread takes; others, such as a debugger's or MPI's, take their own.
void watch_memory();
/// Since then, by this thread: the most at one time, and the largest request, granted or not.
struct Memory {
  std::size_t most = 0;
  std::size_t largest = 0;
};
Memory watched_memory();

/// Begins to watch what all threads take. *One thread* at a time.
void watch_held_memory();
/// What is held beyond that, now.
std::ptrdiff_t held_memory();
/// The most that was held at one time since then, beyond what was held then.
std::size_t most_held_memory();

/// This thread gets no more than `bytes` in one request, until it is granted all.
void grant_no_more_than(std::size_t bytes);
void grant_all();

}  // namespace rota::test
