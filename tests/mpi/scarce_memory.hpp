#pragma once

// Lets requests for memory fail, as scarce_memory.cpp replaces operator new.

#include <cstddef>
#include <cstdint>

namespace rota_test {

/// Requests of this size are large.
inline constexpr std::size_t kLarge = 20'000;

/// From here on, requests of this thread for more than `bytes` fail.
void grant_no_more_than(std::size_t bytes);
/// From here on, large requests of this thread fail, but for the first `requests`.
void grant_large(std::int64_t requests);
/// From here on there is memory again.
void grant_all();

}  // namespace rota_test
