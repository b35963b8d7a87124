#include "order/dealer.hpp"

#include <algorithm>
#include <array>
#include <compare>
#include <functional>
#include <numeric>

#include "order/steps.hpp"

namespace rota::internal {
namespace {

// Exchanges that are looked at for each slot, and some.
constexpr std::int64_t kLooks = 64;
constexpr std::int64_t kLeastLooks = 1 << 14;
// Of a part so many slots are tried, which cost least, or came last.
constexpr std::int64_t kMostTried = 256;
// Parts that are dearer than the mean by no more than 1 / so much are even.
constexpr std::int64_t kEven = 2048;

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return a / b + (a % b == 0 ? 0 : 1); }

}  // namespace

void Dealer::deal(std::span<const std::int64_t> costs, std::size_t columns, const DealRule& rule) {
  weigh(costs, columns);
  const bool are_counts_equal = rule.are_counts_equal && rule.limit == 0;
  const auto divide = [&](std::int64_t micro_batches) {
    micro_batches_ = micro_batches;
    rule.is_padded ? cut(rule.ranks * micro_batches, are_counts_equal)
                   : try_sums(rule.ranks * micro_batches, are_counts_equal);
  };
  const auto fits = [&] {
    return std::ranges::all_of(
        parts_, [&](const Part& part) { return part.load <= rule.limit || part.slots.size() <= 1; });
  };
  aim_at(rule);
  if (rule.limit == 0) {
    divide(rule.micro_batches);
  } else if (rule.is_padded) {
    divide(std::max<std::int64_t>(divide_up(count_cut(rule.limit), rule.ranks), 1));
  } else {
    std::int64_t fewer = least_parts(rule) - 1;  // are too few
    std::int64_t step = 1;
    const auto try_out = [&](std::int64_t count) { return divide(count), fits(); };
    while (!try_out(fewer + step)) {  // with a part for each slot it does
      fewer += step;
      step *= 2;
    }
    for (std::int64_t enough = fewer + step; step > 1; step = enough - fewer) {
      const std::int64_t middle = fewer + step / 2;
      try_out(middle) ? enough = middle : fewer = middle;
    }
    divide(fewer + 1);
  }
  if (!rule.is_padded) {
    if (rule.limit > 0) aim_ = total_ / std::ssize(parts_);
    exchange(are_counts_equal);
    for (Part& part : parts_) part.load -= part.ahead;
  }
  give_to_ranks(rule.ranks, are_counts_equal);
}

// What each micro-batch is to cost: as much as others, unless a slot costs more. Then the first ones of all
// ranks cost as much as that, and the others less: parts are taken to have cost what these lack before.
void Dealer::aim_at(const DealRule& rule) {
  const std::int64_t count = rule.limit == 0 && !rule.is_padded ? rule.micro_batches : 1;
  ahead_.assign(static_cast<std::size_t>(count), 0);
  std::int64_t rest = total_ / rule.ranks;
  for (std::int64_t m = 0; m < count; ++m) {
    const std::int64_t even = rest / (count - m);
    const std::int64_t slot = m * rule.ranks;
    const std::int64_t dearest =
        slot < std::ssize(falling_) ? falling_[static_cast<std::size_t>(slot)].first : 0;
    const std::int64_t aim = std::max(even, dearest);
    if (m == 0) aim_ = aim;
    ahead_[static_cast<std::size_t>(m)] = aim_ - std::min(aim, aim_);
    rest = std::max<std::int64_t>(rest - aim, 0);
  }
}

// Micro-batches that a limit takes at least: by the sum, and as no k slots of more than a k-th fit together.
std::int64_t Dealer::least_parts(const DealRule& rule) const {
  constexpr std::int64_t kMostTogether = 16;
  std::int64_t parts = divide_up(total_, rule.limit);
  std::int64_t dear = 0;  // slots of more than a k-th
  for (std::int64_t k = 2; k <= kMostTogether; ++k) {
    while (dear < std::ssize(falling_) && falling_[static_cast<std::size_t>(dear)].first > rule.limit / k)
      ++dear;
    parts = std::max(parts, divide_up(dear, k - 1));
  }
  return std::max<std::int64_t>(divide_up(std::min(parts, std::ssize(falling_)), rule.ranks), 1);
}

void Dealer::weigh(std::span<const std::int64_t> costs, std::size_t columns) {
  columns_ = columns;
  costs_ = costs;
  const std::size_t slots = costs.size() / columns;
  std::vector<std::int64_t> totals(columns);
  for (std::size_t i = 0; i < costs.size(); ++i) totals[i % columns] += costs[i];
  total_ = *std::ranges::max_element(totals);
  if (columns > 1) {
    scaled_.resize(costs.size());
    for (std::size_t i = 0; i < costs.size(); ++i) {
      const std::int64_t total = std::max<std::int64_t>(totals[i % columns], 1);
      scaled_[i] = static_cast<std::int64_t>(i128{costs[i]} * total_ / total);
    }
    costs_ = scaled_;
  }
  falling_.resize(slots);
  for (std::size_t i = 0; i < slots; ++i) {
    const std::int64_t* const own = cost(static_cast<std::int32_t>(i));
    falling_[i] = {-*std::max_element(own, own + columns), static_cast<std::int32_t>(i)};
  }
  std::ranges::sort(falling_);
  for (auto& [cost, slot] : falling_) cost = -cost;
}

void Dealer::add(Part& part, std::int32_t slot, int sign) {
  part.load = 0;
  for (std::size_t k = 0; k < columns_; ++k) {
    part.loads[k] += sign * cost(slot)[k];
    part.load = std::max(part.load, part.loads[k]);
  }
}

void Dealer::try_sums(std::int64_t parts, bool are_counts_equal) {
  parts_.resize(static_cast<std::size_t>(parts));
  heap_.resize(parts_.size());
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    Part& part = parts_[p];
    part.ahead = ahead_[p * ahead_.size() / parts_.size()];
    part.load = part.ahead;
    part.loads.assign(columns_, part.ahead);
    part.slots.clear();
    heap_[p] = {part.ahead, static_cast<std::int32_t>(p)};
  }
  std::ranges::make_heap(heap_, std::greater());
  const std::int64_t places = std::ssize(falling_) / parts;
  std::int64_t more = std::ssize(falling_) % parts;  // parts that have one more
  for (const auto& [cost, slot] : falling_) {
    for (;;) {
      const std::int64_t count = std::ssize(parts_[static_cast<std::size_t>(heap_.front().second)].slots);
      if (!are_counts_equal || count < places || (count == places && more > 0)) break;
      std::ranges::pop_heap(heap_, std::greater());
      heap_.pop_back();
    }
    std::ranges::pop_heap(heap_, std::greater());
    Part& part = parts_[static_cast<std::size_t>(heap_.back().second)];
    if (are_counts_equal && std::ssize(part.slots) == places) --more;
    part.slots.push_back(slot);
    add(part, slot, 1);
    heap_.back().first = part.load;
    std::ranges::push_heap(heap_, std::greater());
  }
}

void Dealer::exchange(bool are_counts_equal) {
  const auto is_less = [&](std::int32_t a, std::int32_t b) {
    return std::pair(parts_[static_cast<std::size_t>(a)].load, a) <
           std::pair(parts_[static_cast<std::size_t>(b)].load, b);
  };
  by_load_.resize(parts_.size());
  std::iota(by_load_.begin(), by_load_.end(), 0);
  std::ranges::sort(by_load_, is_less);
  const std::int64_t aim =
      std::max(aim_ + aim_ / kEven, falling_.empty() ? std::int64_t{0} : falling_.front().first);
  std::int64_t looks = kLeastLooks + kLooks * std::ssize(falling_);
  for (std::size_t other = 0; other + 1 < by_load_.size() && looks > 0; ++other) {
    const std::int32_t most = by_load_.back();
    const std::int32_t least = by_load_[other];
    Part& mine = parts_[static_cast<std::size_t>(most)];
    Part& theirs = parts_[static_cast<std::size_t>(least)];
    if (mine.load <= aim) return;
    looks -= std::min(std::ssize(mine.slots), kMostTried) * std::min(std::ssize(theirs.slots), kMostTried);
    const Exchange found = find(mine, theirs, !are_counts_equal);
    if (mine.load - found.load < (mine.load - aim) / 4 + 1) continue;
    by_load_.pop_back();
    by_load_.erase(by_load_.begin() + static_cast<std::ptrdiff_t>(other));
    carry_out(mine, theirs, found);
    for (const std::int32_t part : {most, least})
      by_load_.insert(std::ranges::upper_bound(by_load_, part, is_less), part);
    other = static_cast<std::size_t>(-1);
  }
}

Dealer::Exchange Dealer::find(const Part& most, const Part& other, bool may_move) const {
  Exchange best{0, 0, most.load};
  static constexpr std::array<std::int64_t, kMostColumns> kNothing{};
  const auto first = [](const Part& part) {
    return static_cast<std::size_t>(std::max<std::int64_t>(std::ssize(part.slots) - kMostTried, 0));
  };
  for (std::size_t i = first(most); i < most.slots.size(); ++i) {
    const std::int64_t* const mine = cost(most.slots[i]);
    for (std::size_t j = first(other); j < other.slots.size() + (may_move ? 1 : 0); ++j) {
      const std::int64_t* const theirs = j < other.slots.size() ? cost(other.slots[j]) : kNothing.data();
      std::int64_t load = 0;
      for (std::size_t k = 0; k < columns_; ++k)
        load = std::max({load, most.loads[k] - mine[k] + theirs[k], other.loads[k] + mine[k] - theirs[k]});
      if (load < best.load) best = {i, j, load};
    }
  }
  return best;
}

void Dealer::carry_out(Part& most, Part& other, const Exchange& found) {
  const std::int32_t mine = most.slots[found.mine];
  add(most, mine, -1);
  add(other, mine, 1);
  if (found.theirs == other.slots.size()) {
    other.slots.push_back(mine);
    most.slots.erase(most.slots.begin() + static_cast<std::ptrdiff_t>(found.mine));
    return;
  }
  add(other, other.slots[found.theirs], -1);
  add(most, other.slots[found.theirs], 1);
  std::swap(most.slots[found.mine], other.slots[found.theirs]);
}

// ---- with padding: slots side by side by cost, which none can be better than ----

std::int64_t Dealer::cut_end(std::int64_t begin, std::int64_t limit) const {
  const std::int64_t dearest = falling_[static_cast<std::size_t>(begin)].first;
  if (dearest == 0) return std::ssize(falling_);
  return std::min(begin + std::max<std::int64_t>(limit / dearest, 1), std::ssize(falling_));
}

std::int64_t Dealer::count_cut(std::int64_t limit) const {
  std::int64_t parts = 0;
  for (std::int64_t begin = 0; begin < std::ssize(falling_); ++parts) begin = cut_end(begin, limit);
  return parts;
}

void Dealer::cut(std::int64_t parts, bool are_counts_equal) {
  std::int64_t least = 0;
  std::int64_t most = falling_.empty() ? 0 : falling_.front().first * std::ssize(falling_);
  while (!are_counts_equal && least < most) {
    const std::int64_t middle = least + (most - least) / 2;
    count_cut(middle) <= parts ? most = middle : least = middle + 1;
  }
  parts_.assign(static_cast<std::size_t>(parts), {});
  std::int64_t begin = 0;
  for (std::int64_t p = 0; p < parts && begin < std::ssize(falling_); ++p) {
    const std::int64_t end =
        are_counts_equal ? share(std::ssize(falling_), p + 1, parts) : cut_end(begin, least);
    Part& part = parts_[static_cast<std::size_t>(p)];
    part.load = falling_[static_cast<std::size_t>(begin)].first * (end - begin);
    for (; begin < end; ++begin) part.slots.push_back(falling_[static_cast<std::size_t>(begin)].second);
  }
}

// Of the parts, the dearest are the first micro-batches, of which the dearest goes to whoever has least.
// Where counts are to be equal, those with more slots go to whoever has fewest: ranks differ by one at most,
// too.
void Dealer::give_to_ranks(std::int64_t ranks, bool are_counts_equal) {
  struct Order {
    std::int64_t slots;
    std::int64_t load;
    std::int32_t number;
    // NOLINTNEXTLINE(modernize-use-nullptr): the zero that it sees is the compiler's
    auto operator<=>(const Order&) const = default;
  };
  std::vector<Order> dearest(parts_.size());
  for (std::size_t p = 0; p < parts_.size(); ++p)
    dearest[p] = {are_counts_equal ? -std::ssize(parts_[p].slots) : 0, -parts_[p].load,
                  static_cast<std::int32_t>(p)};
  std::ranges::sort(dearest, {}, [](const Order& of) { return std::pair(of.load, of.number); });
  std::vector<Order> least(static_cast<std::size_t>(ranks));
  for (std::size_t r = 0; r < least.size(); ++r) least[r] = {0, 0, static_cast<std::int32_t>(r)};
  part_of_.resize(falling_.size());
  for (std::int64_t m = 0; m < micro_batches_; ++m) {
    const auto group = std::span(dearest).subspan(static_cast<std::size_t>(m * ranks), least.size());
    std::ranges::sort(group);
    std::ranges::sort(least);
    for (std::size_t r = 0; r < least.size(); ++r) {
      const Part& part = parts_[static_cast<std::size_t>(group[r].number)];
      for (const std::int32_t slot : part.slots)
        part_of_[static_cast<std::size_t>(slot)] =
            static_cast<std::int32_t>(least[r].number * micro_batches_ + m);
      least[r].slots -= group[r].slots;
      least[r].load += part.load;
    }
  }
}

}  // namespace rota::internal
