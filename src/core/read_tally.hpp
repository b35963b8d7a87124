#pragma once

// What a thread has read, and what it has waited for.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <type_traits>

namespace rota::internal {

using ReadClock = std::chrono::steady_clock;

[[nodiscard]] inline double seconds_since(ReadClock::time_point begun) noexcept {
  return std::chrono::duration<double>(ReadClock::now() - begun).count();
}

/// What this thread has read, told by what reads. It owns nothing: where memory is short, the C library ends
/// a process one of whose threads has to be told to destroy something.
struct ReadTally {
  static constexpr double kLeast = 1e-3;  ///< seconds; shorter waits are not told apart

  std::int64_t stored_bytes = 0;  ///< of storages
  double longest = 0;             ///< seconds that one file took
  std::size_t name_bytes = 0;
  char name[4096] = {};  ///< that file's, or its beginning

  [[nodiscard]] std::string_view file() const noexcept { return {name, name_bytes}; }

  [[nodiscard]] static ReadTally& here() noexcept {
    thread_local ReadTally tally;
    return tally;
  }

  /// The file that `name_of` names took so many seconds.
  template <typename NameOf>
  void add(double took, NameOf name_of) {
    if (took < kLeast || took <= longest) return;
    const std::string& file = name_of();
    name_bytes = file.copy(name, sizeof name);
    longest = took;
  }
};
static_assert(std::is_trivially_destructible_v<ReadTally>);

/// Bytes that the kernel has brought from disks for this process; 0 where it does not tell.
[[nodiscard]] inline std::int64_t bytes_from_disk() {
  std::ifstream io("/proc/self/io");
  std::string name;
  for (std::int64_t value = 0; io >> name >> value;) {
    if (name == "read_bytes:") return value;
  }
  return 0;
}

}  // namespace rota::internal
