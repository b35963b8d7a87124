#pragma once

// The steps that a case of the campaign saves, in this order.

#include <cstdint>

namespace rota_faults {

inline constexpr std::int64_t kOlderStep = 1;
inline constexpr std::int64_t kOldStep = 2;
inline constexpr std::int64_t kNewStep = 3;   ///< with the fault
inline constexpr std::int64_t kNextStep = 4;  ///< without, in the same process
inline constexpr std::int64_t kLastStep = 5;  ///< in another process

}  // namespace rota_faults
