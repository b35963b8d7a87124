#include "digest.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace rota::checkpoint {

Digest digest(std::span<const std::byte> bytes) noexcept {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {.low = hash.low64, .high = hash.high64};
}

std::uint64_t short_digest(std::span<const std::byte> bytes) noexcept {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::uint64_t row_digest(std::span<const std::byte> rows, std::int64_t first,
                         std::int64_t row_bytes) noexcept {
  if (row_bytes == 0) return 0;
  const auto stride = static_cast<std::size_t>(row_bytes);
  auto seed = static_cast<std::uint64_t>(first);
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < rows.size(); at += stride) {
    sum += XXH3_64bits_withSeed(rows.data() + at, stride, seed++);
  }
  return sum;
}

struct DigestStream::State {
  XXH3_state_t hash;
};

DigestStream::DigestStream() : state_(std::make_unique<State>()) {
  XXH3_INITSTATE(&state_->hash);
  begin();
}
DigestStream::~DigestStream() = default;

// Both lengths have the same state, and differ only in how they end.
void DigestStream::begin(std::uint64_t seed) noexcept { XXH3_64bits_reset_withSeed(&state_->hash, seed); }

void DigestStream::add(std::span<const std::byte> bytes) noexcept {
  XXH3_64bits_update(&state_->hash, bytes.data(), bytes.size());
}

Digest DigestStream::digest() const noexcept {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->hash);
  return {.low = hash.low64, .high = hash.high64};
}

std::uint64_t DigestStream::short_digest() const noexcept { return XXH3_64bits_digest(&state_->hash); }

}  // namespace rota::checkpoint
