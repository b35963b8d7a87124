#include "rota/fingerprint.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <bit>
#include <charconv>
#include <new>

namespace rota {
namespace {

XXH3_state_t* hash(void* state) { return static_cast<XXH3_state_t*>(state); }

static_assert(std::endian::native == std::endian::little, "so that a fingerprint travels");

}  // namespace

std::string to_string(const Fingerprint& fingerprint) {
  return fmt::format("{:016x}{:016x}", fingerprint.high, fingerprint.low);
}

std::optional<Fingerprint> parse_fingerprint(std::string_view text) {
  if (text.size() != 32 || text.find_first_not_of("0123456789abcdef") != std::string_view::npos)
    return std::nullopt;
  Fingerprint read;
  std::from_chars(text.data(), text.data() + 16, read.high, 16);
  std::from_chars(text.data() + 16, text.data() + 32, read.low, 16);
  return read;
}

FingerprintBuilder::FingerprintBuilder() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(hash(state_));
}

FingerprintBuilder::~FingerprintBuilder() { XXH3_freeState(hash(state_)); }

FingerprintBuilder& FingerprintBuilder::add(std::string_view part) {
  const std::uint64_t bytes = part.size();
  XXH3_128bits_update(hash(state_), &bytes, sizeof(bytes));
  XXH3_128bits_update(hash(state_), part.data(), part.size());
  return *this;
}

FingerprintBuilder& FingerprintBuilder::add(std::int64_t part) { return add(std::span(&part, 1)); }

FingerprintBuilder& FingerprintBuilder::add(std::span<const std::int64_t> part) {
  return add(std::string_view(reinterpret_cast<const char*>(part.data()), part.size_bytes()));
}

Fingerprint FingerprintBuilder::finish() const {
  const XXH128_hash_t digest = XXH3_128bits_digest(static_cast<const XXH3_state_t*>(state_));
  return {digest.high64, digest.low64};
}

}  // namespace rota
