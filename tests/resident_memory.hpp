#pragma once

// How much memory this process has, and had at most.

#include "test.hpp"

namespace rota::test {

/// In KiB, by a line of /proc/self/status: "VmRSS", or "VmHWM" for the peak.
inline std::int64_t resident(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1));
  }
  return 0;
}

/// The peak begins anew.
inline void forget_peak() { std::ofstream("/proc/self/clear_refs") << 5; }

/// Whether a sanitizer takes memory of its own.
inline constexpr bool kIsSanitized =
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    true;
#else
    false;
#endif

}  // namespace rota::test
