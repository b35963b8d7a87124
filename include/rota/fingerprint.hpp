#pragma once

// 128 bits that tell one dataset from another. Next: catalog.hpp.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rota {

/// A digest of a dataset's names, sizes and shapes, never of times or absolute paths.
struct Fingerprint {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

/// 32 lower-case hexadecimal digits; and the other way round, nothing for another text.
std::string to_string(const Fingerprint& fingerprint);
std::optional<Fingerprint> parse_fingerprint(std::string_view text);

/// Builds a Fingerprint from parts, in order, by XXH3-128. Parts are length-prefixed: "ab","c" differs from
/// "a","bc". *One thread.*
class FingerprintBuilder {
 public:
  FingerprintBuilder();
  ~FingerprintBuilder();
  FingerprintBuilder(const FingerprintBuilder&) = delete;
  FingerprintBuilder& operator=(const FingerprintBuilder&) = delete;

  FingerprintBuilder& add(std::string_view part);
  FingerprintBuilder& add(std::int64_t part);
  FingerprintBuilder& add(std::span<const std::int64_t> part);
  FingerprintBuilder& add(const Fingerprint& part) {
    return add(static_cast<std::int64_t>(part.high)).add(static_cast<std::int64_t>(part.low));
  }
  [[nodiscard]] Fingerprint finish() const;

 private:
  void* state_;  // XXH3_state_t
};

}  // namespace rota
