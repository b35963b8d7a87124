#include "order/alive_set.hpp"

#include <algorithm>
#include <bit>

namespace rota::internal {
namespace {

std::size_t low_bit(std::size_t i) noexcept { return i & (~i + 1); }

// The place of the k-th set bit of `word`, which has more than k: by the counts of its bytes, all taken at
// once.
int select_bit(std::uint64_t word, int k) noexcept {
  std::uint64_t counts = word - ((word >> 1) & 0x5555555555555555U);
  counts = (counts & 0x3333333333333333U) + ((counts >> 2) & 0x3333333333333333U);
  counts = (counts + (counts >> 4)) & 0x0F0F0F0F0F0F0F0FU;
  int place = 0;
  for (; k >= static_cast<int>(counts & 0xFF); counts >>= 8, place += 8) k -= static_cast<int>(counts & 0xFF);
  std::uint64_t bits = word >> place;
  for (; k > 0; --k) bits &= bits - 1;
  return place + std::countr_zero(bits);
}

}  // namespace

void AliveSet::build() {
  count_ = 0;
  tree_.assign(words_.size() + 1, 0);
  for (std::size_t i = 1; i < tree_.size(); ++i) {
    const int members = std::popcount(words_[i - 1]);
    count_ += members;
    tree_[i] += members;
    if (const std::size_t parent = i + low_bit(i); parent < tree_.size()) tree_[parent] += tree_[i];
  }
}

void AliveSet::remove(std::int64_t member) noexcept {
  const auto word = static_cast<std::size_t>(member >> 6);
  words_[word] &= ~(std::uint64_t{1} << (member & 63));
  for (std::size_t i = word + 1; i < tree_.size(); i += low_bit(i)) --tree_[i];
  --count_;
}

std::int64_t AliveSet::rank(std::int64_t value) const noexcept {
  const auto word = static_cast<std::size_t>(value >> 6);
  std::int64_t below = 0;
  for (std::size_t i = word; i > 0; i -= low_bit(i)) below += tree_[i];
  if ((value & 63) != 0) below += std::popcount(words_[word] & ((std::uint64_t{1} << (value & 63)) - 1));
  return below;
}

std::int64_t AliveSet::select(std::int64_t rank) const noexcept {
  if (rank >= count_) return size_;
  std::size_t word = 0;
  for (std::size_t step = std::bit_floor(tree_.size() - 1); step > 0; step /= 2) {
    if (word + step < tree_.size() && tree_[word + step] <= rank) {
      word += step;
      rank -= tree_[word];
    }
  }
  return static_cast<std::int64_t>(word) * 64 + select_bit(words_[word], static_cast<int>(rank));
}

std::int64_t AliveSet::next_after_word(std::size_t word) const noexcept {
  constexpr std::size_t kLook = 4;  // words looked at one by one before the tree is asked
  for (const std::size_t end = std::min(words_.size(), word + 1 + kLook); ++word < end;) {
    if (words_[word] != 0) return static_cast<std::int64_t>(word) * 64 + std::countr_zero(words_[word]);
  }
  return word >= words_.size() ? size_ : select(rank(static_cast<std::int64_t>(word) * 64));
}

}  // namespace rota::internal
