#pragma once

// What memory there is for the page cache, and what is in it.

#include <cstdint>

namespace rota::internal {

/// Of this machine, or of the control group that this process is in, if that has less.
double memory_bytes();

/// Whether the page with byte `offset` of an open file is in the page cache. Does not wait for storage.
bool is_cached(int fd, std::uint64_t offset) noexcept;

}  // namespace rota::internal
