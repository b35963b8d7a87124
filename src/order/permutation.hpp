#pragma once

// A keyed permutation of [0, n) that is computed, never stored, and can be inverted. Next: order.hpp.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "rota/types.hpp"

namespace rota::internal {

/// 128 bits that choose one permutation.
struct Key {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const Key&, const Key&) = default;
};

/// What a key is for, so that no two uses share one.
enum class Purpose : std::uint64_t {
  global = 1,
  within = 2,
  blocks = 3,
  window = 4,
  groups = 5,
  split = 6,
  transform = 7,
  packing = 8,
  dataset = 9,
  buffer = 10,
  draw = 11,
  jitter = 12,
};

/// XXH3-128 of the four numbers as little-endian 64-bit words: nearby seeds and epochs have unrelated keys.
Key derive_key(std::uint64_t seed, std::int64_t epoch, Purpose purpose, std::int64_t index) noexcept;

/// A bijection of [0, n), 0 <= n <= 2^62, chosen by a key. *Immutable*; about 25 ns a call, no memory.
///
/// A Feistel network of six rounds, 16 below 1,024, over the mixed radix a x b >= n with a, b about the
/// square root of n (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002), whose few
/// values past n - 1 are walked on until they fall inside. A Feistel network alone favours one parity at many
/// small n, so two places are exchanged at the end for every other key: both parities are equally likely. The
/// arithmetic is fixed by kOrderVersion: every machine computes the same permutation for ever.
class Permutation {
 public:
  Permutation(std::int64_t n, Key key) noexcept;

  /// Where `i` goes; 0 <= i < n.
  [[nodiscard]] std::int64_t operator()(std::int64_t i) const noexcept;
  /// Where each of `places` goes, in its place: what a call for each gives, in half the time.
  void apply(std::span<SampleId> places) const noexcept;
  /// What goes to `i`; 0 <= i < n.
  [[nodiscard]] std::int64_t inverse(std::int64_t i) const noexcept;
  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(n_); }

 private:
  static constexpr std::size_t kMaxRounds = 16;
  template <std::size_t lanes>
  void forward(std::array<std::uint64_t, lanes>& x) const noexcept;
  [[nodiscard]] std::uint64_t exchanged(std::uint64_t i) const noexcept;

  std::uint64_t n_;
  std::uint64_t a_;           // values of the high half
  std::uint64_t b_;           // values of the low half
  std::uint64_t reciprocal_;  // floor(2^64 / b), or 2^64 - 1 for b = 1
  std::uint64_t first_;       // is exchanged with second_, which is the same for every other key
  std::uint64_t second_;
  std::size_t rounds_;
  std::array<std::uint64_t, kMaxRounds> keys_;
};

}  // namespace rota::internal
