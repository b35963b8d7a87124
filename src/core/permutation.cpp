#include "rota/permutation.hpp"

#define XXH_INLINE_ALL  // a call for every shard that a `within` order touches
#include <xxhash.h>

#include <bit>
#include <cmath>
#include <cstring>

namespace rota {
namespace {

using u64 = std::uint64_t;

constexpr u64 high_product(u64 x, u64 y) noexcept {
  __extension__ using u128 = unsigned __int128;
  return static_cast<u64>((static_cast<u128>(x) * y) >> 64);
}

// The finaliser of SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators",
// OOPSLA 2014).
constexpr u64 mix(u64 x) noexcept {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

// The round function: a keyed hash of one half, reduced to [0, values) by its high bits.
constexpr u64 round_value(u64 half, u64 key, u64 values) noexcept {
  u64 h = (half ^ key) * 0x9FB21C651E98DF25U;
  h ^= h >> 32;
  return high_product(h * 0xD6E8FEB86659FD93U, values);
}

constexpr u64 add(u64 x, u64 y, u64 modulus) noexcept {
  const u64 sum = x + y;
  return sum >= modulus ? sum - modulus : sum;
}

constexpr u64 subtract(u64 x, u64 y, u64 modulus) noexcept { return x >= y ? x - y : x + modulus - y; }

// Four rounds on a small domain can be told from random, so small ones get more.
constexpr int rounds_for(u64 n) noexcept { return n < 1024 ? 16 : n < 1'000'000 ? 6 : 4; }

u64 ceil_sqrt(u64 n) noexcept {
  auto root = static_cast<u64>(std::sqrt(static_cast<double>(n)));
  while (root * root < n) ++root;
  while (root > 1 && (root - 1) * (root - 1) >= n) --root;
  return root;
}

}  // namespace

Key derive_key(std::uint64_t seed, std::int64_t epoch, Purpose purpose, std::int64_t index) noexcept {
  static_assert(std::endian::native == std::endian::little, "keys are hashes of little-endian words");
  const std::array<u64, 4> words{seed, static_cast<u64>(epoch), static_cast<u64>(purpose),
                                 static_cast<u64>(index)};
  const XXH128_hash_t hash = XXH3_128bits(words.data(), sizeof(words));
  return {.low = hash.low64, .high = hash.high64};
}

Permutation::Permutation(std::int64_t n, Key key) noexcept
    : n_(static_cast<u64>(n)),
      a_(n_ == 0 ? 1 : ceil_sqrt(n_)),
      b_(n_ == 0 ? 1 : (n_ + a_ - 1) / a_),
      reciprocal_(~u64{0} / b_),
      rounds_(rounds_for(n_)),
      keys_() {
  for (int k = 0; k < rounds_; ++k) {
    keys_[static_cast<std::size_t>(k)] = mix(key.low + static_cast<u64>(k + 1) * (key.high | 1));
  }
}

std::uint64_t Permutation::forward(std::uint64_t i) const noexcept {
  u64 high = high_product(i, reciprocal_);
  u64 low = i - high * b_;
  if (low >= b_) {  // the reciprocal is rounded down: the quotient may be one short
    low -= b_;
    ++high;
  }
  for (std::size_t k = 0; k < static_cast<std::size_t>(rounds_); k += 2) {
    high = add(high, round_value(low, keys_[k], a_), a_);
    low = add(low, round_value(high, keys_[k + 1], b_), b_);
  }
  return high * b_ + low;
}

std::uint64_t Permutation::backward(std::uint64_t i) const noexcept {
  u64 high = i / b_;
  u64 low = i % b_;
  for (auto k = static_cast<std::size_t>(rounds_); k > 0; k -= 2) {
    low = subtract(low, round_value(high, keys_[k - 1], b_), b_);
    high = subtract(high, round_value(low, keys_[k - 2], a_), a_);
  }
  return high * b_ + low;
}

std::int64_t Permutation::operator()(std::int64_t i) const noexcept {
  u64 x = forward(static_cast<u64>(i));
  while (x >= n_) x = forward(x);  // a x b - n < a, so this is rare and ends: i itself is below n
  return static_cast<std::int64_t>(x);
}

std::int64_t Permutation::inverse(std::int64_t i) const noexcept {
  u64 x = backward(static_cast<u64>(i));
  while (x >= n_) x = backward(x);
  return static_cast<std::int64_t>(x);
}

}  // namespace rota
