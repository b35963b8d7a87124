#pragma once

// How much memory this process holds from operator new, which held_memory.cpp replaces.

#include <cstddef>

namespace rota::test {

/// Begins to watch. *One thread* at a time; what all threads take counts.
void watch_held_memory();
/// What is held beyond that, now.
std::ptrdiff_t held_memory();
/// The most that was held at one time since then, beyond what was held then.
std::size_t most_held_memory();

}  // namespace rota::test
