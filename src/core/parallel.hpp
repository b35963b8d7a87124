#pragma once

// A loop over numbers, shared out over threads.

#include <cstdint>
#include <functional>
#include <string_view>

namespace rota::internal {

/// Items [begin, end) of a loop, and whether the thread at hand is the one that began it.
struct LoopPart {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool is_callers = false;
};

/// Calls `work` for [0, count) in parts of at most `part_size` items, on up to `threads` threads, the
/// caller's among them, each of which takes one part after the other. Blocks. Once one throws no further part
/// is begun, and what the first of them threw is thrown, the same however threads run. Where the caller's own
/// wait ends early (`Wait::here`), those of the others do. Throws Error{io} where the system starts no more
/// threads, beginning with `task`.
void parallel_for(std::string_view task, std::int64_t count, std::int64_t part_size, int threads,
                  const std::function<void(const LoopPart&)>& work);

}  // namespace rota::internal
