#pragma once

// The checksums of the file: XXH3, as FORMAT.md says where.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace rota::checkpoint {

/// XXH3-128, seed 0.
struct Digest {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const Digest&, const Digest&) = default;
};

[[nodiscard]] Digest digest(std::span<const std::byte> bytes) noexcept;

/// XXH3-64, seed 0.
[[nodiscard]] std::uint64_t short_digest(std::span<const std::byte> bytes) noexcept;

/// Sum modulo 2^64 of XXH3-64 of each row, seeded by its index; `rows` are rows `first`, `first` + 1, ...
/// Sums over any split of a tensor add up to the same. 0 where `row_bytes` is 0.
[[nodiscard]] std::uint64_t row_digest(std::span<const std::byte> rows, std::int64_t first,
                                       std::int64_t row_bytes) noexcept;

/// Digests of what comes in pieces: XXH3 of either length, with any seed. *One thread.*
class DigestStream {
 public:
  DigestStream();
  ~DigestStream();
  DigestStream(const DigestStream&) = delete;
  DigestStream& operator=(const DigestStream&) = delete;

  /// Begins anew; `seed` is the index of a row.
  void begin(std::uint64_t seed = 0) noexcept;
  void add(std::span<const std::byte> bytes) noexcept;
  [[nodiscard]] Digest digest() const noexcept;
  [[nodiscard]] std::uint64_t short_digest() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rota::checkpoint
