#pragma once

// Which process it is, for others of the node.

#include <cstdint>

namespace rota::internal {

/// A process, told from one that has its number later. Lies in shared memory. *Immutable.*
struct Process {
  std::int64_t id = 0;
  std::uint64_t started = 0;  ///< in the kernel's ticks

  static Process self();
  /// False where it has ended, however that was. True where that cannot be found out.
  [[nodiscard]] bool is_alive() const;
  friend bool operator==(const Process&, const Process&) = default;
};

}  // namespace rota::internal
