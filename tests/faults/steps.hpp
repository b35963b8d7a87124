#pragma once

// What a case of the campaign saves.

#include <cstdint>

namespace rota::test {

/// Of a state, about, over all ranks.
inline constexpr std::int64_t kStateBytes = 27'000;

// In this order.
inline constexpr std::int64_t kOlderStep = 1;
inline constexpr std::int64_t kOldStep = 2;
inline constexpr std::int64_t kNewStep = 3;   ///< with the fault
inline constexpr std::int64_t kNextStep = 4;  ///< without, in the same process
inline constexpr std::int64_t kLastStep = 5;  ///< in another process

}  // namespace rota::test
