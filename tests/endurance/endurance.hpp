#pragma once

// What the programs and their tests agree on.

#include <cstdint>

namespace rota::test {

inline constexpr std::int64_t kCycleBytes = 300'000;
inline constexpr std::int64_t kKeepLast = 2;

inline constexpr std::int64_t kDiskBytes = 900'000;

inline constexpr std::int64_t kManyBytes = 120'000;

}  // namespace rota::test
