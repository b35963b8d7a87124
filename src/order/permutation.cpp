#include "order/permutation.hpp"

#define XXH_INLINE_ALL  // a call for every shard that a `within` order touches
#include <xxhash.h>

#include <bit>
#include <cmath>

namespace rota::internal {
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

// With four rounds, two places whose halves collide in one round keep their distance to the end: neighbours
// of one batch are neighbours on disk too often. With six they must collide twice. Small domains get more.
constexpr std::size_t rounds_for(u64 n) noexcept { return n < 1024 ? 16 : 6; }

struct Halves {
  u64 high;
  u64 low;
};

// x / b and x % b for x < 2^63, with reciprocal = floor(2^64 / b).
constexpr Halves halves(u64 x, u64 b, u64 reciprocal) noexcept {
  const u64 high = high_product(x, reciprocal);
  const u64 low = x - high * b;
  return low < b ? Halves{high, low} : Halves{high + 1, low - b};  // rounded down, so it may be one short
}

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
  for (std::size_t k = 0; k < rounds_; ++k) keys_[k] = mix(key.low + (k + 1) * (key.high | 1));
  // The lowest bit of key.high is in no round key. So this coin is independent of the network, and makes both
  // parities equally likely, exactly, whatever the network's are. Which two places it exchanges is all the
  // same for that, if only they differ: a place of its own for each key, and the one behind it.
  const u64 exchange = mix(key.low) ^ (key.high & 1);
  first_ = second_ = high_product(exchange, n_);
  if ((exchange & 1) != 0) second_ = first_ + 1 < n_ ? first_ + 1 : 0;
}

std::uint64_t Permutation::exchanged(std::uint64_t i) const noexcept {
  return i == first_ ? second_ : i == second_ ? first_ : i;
}

// Several at once: one waits for its multiplications, so the others are computed meanwhile.
template <std::size_t lanes>
void Permutation::forward(std::array<u64, lanes>& x) const noexcept {
  std::array<Halves, lanes> at{};
  for (std::size_t j = 0; j < lanes; ++j) at[j] = halves(x[j], b_, reciprocal_);
  for (std::size_t k = 0; k < rounds_; k += 2) {
    for (Halves& h : at) h.high = add(h.high, round_value(h.low, keys_[k], a_), a_);
    for (Halves& h : at) h.low = add(h.low, round_value(h.high, keys_[k + 1], b_), b_);
  }
  for (std::size_t j = 0; j < lanes; ++j) x[j] = at[j].high * b_ + at[j].low;
}

std::int64_t Permutation::operator()(std::int64_t i) const noexcept {
  std::array<u64, 1> x{static_cast<u64>(i)};
  do {
    forward(x);
  } while (x[0] >= n_);  // a x b - n < a, so this is rare and ends: i itself is below n
  return static_cast<std::int64_t>(exchanged(x[0]));
}

void Permutation::apply(std::span<SampleId> places) const noexcept {
  std::array<u64, 4> x{};
  for (; places.size() >= x.size(); places = places.subspan(x.size())) {
    for (std::size_t j = 0; j < x.size(); ++j) x[j] = static_cast<u64>(places[j].value);
    forward(x);
    for (std::size_t j = 0; j < x.size(); ++j) {
      const auto at = static_cast<std::int64_t>(x[j]);
      places[j].value = x[j] < n_ ? static_cast<std::int64_t>(exchanged(x[j])) : (*this)(at);
    }
  }
  for (SampleId& place : places) place.value = (*this)(place.value);
}

std::int64_t Permutation::inverse(std::int64_t i) const noexcept {
  u64 x = exchanged(static_cast<u64>(i));
  do {
    auto [high, low] = halves(x, b_, reciprocal_);
    for (std::size_t k = rounds_; k > 0; k -= 2) {
      low = subtract(low, round_value(high, keys_[k - 1], b_), b_);
      high = subtract(high, round_value(low, keys_[k - 2], a_), a_);
    }
    x = high * b_ + low;
  } while (x >= n_);
  return static_cast<std::int64_t>(x);
}

}  // namespace rota::internal
