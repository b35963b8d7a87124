#include "order/balance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/failure.hpp"
#include "core/option.hpp"
#include "order/steps.hpp"

namespace rota {

void Balance::validate() const {
  constexpr internal::OptionCheck kCheck("balance a batch");
  constexpr std::int64_t kMostParts = 65'536;
  if (columns.empty())
    kCheck.refuse("columns", "missing", "given: lengths of samples, by which ranks get as much to do");
  kCheck.in_range("columns", std::ssize(columns), 1, internal::kMostColumns, "columns of lengths");
  const auto refuse_unless_number = [&](std::string_view option, double value) {
    if (!(value >= 0 && std::isfinite(value)))
      kCheck.refuse(option, fmt::format("{}", value), "0 or more, and finite");
  };
  for (const LengthColumn& column : columns) {
    refuse_unless_number("linear", column.linear);
    refuse_unless_number("quadratic", column.quadratic);
  }
  const auto costly = std::ranges::count_if(
      columns, [](const LengthColumn& column) { return column.linear > 0 || column.quadratic > 0; });
  if (costly == 0) kCheck.refuse("linear and quadratic", "0 in all columns", "above 0 in one");
  if (costly > 1 && padded) kCheck.refuse("padded", "true", "false where several columns cost something");
  if (costly > 1 && micro_cost > 0)
    kCheck.refuse("micro_cost", fmt::format("{}", micro_cost), "0 where several columns cost something");
  kCheck.in_range("micro_batches", micro_batches, 1, kMostParts);
  refuse_unless_number("micro_cost", micro_cost);
  if (micro_cost > 0 && micro_batches > 1)
    kCheck.refuse("micro_batches", fmt::format("{}", micro_batches), "1 where micro_cost says how many");
}

namespace internal {
namespace {

constexpr std::int64_t kMostParts = 1 << 24;
constexpr int kCostDigits = 62;
constexpr i128 kMostCost = i128{1} << kCostDigits;
// So many binary digits of the larger coefficient count.
constexpr int kDigits = 31;

// Above 2^62 it is that and 1.
i128 cost_of(const Cost& cost, std::int64_t length) {
  if (cost.quadratic > 0 && length > std::numeric_limits<std::int32_t>::max()) return kMostCost + 1;
  return std::min(i128{cost.linear} * length + i128{cost.quadratic} * length * length, kMostCost + 1);
}

// Throws where `sum` is too much for arithmetic.
std::int64_t checked(i128 sum, const Position& at) {
  if (sum <= kMostCost) return static_cast<std::int64_t>(sum);
  throw failure(ErrorCode::out_of_range,
                "balance the batch of step {}: its samples are longer, or cost more, than 2^62 together; "
                "take smaller batches, or whole coefficients that are lower",
                at.step);
}

}  // namespace

Cost quantise(const LengthColumn& column, std::int64_t longest, std::int64_t samples) {
  const double most = std::max(column.linear, column.quadratic);
  if (most == 0) return {};
  const auto length = static_cast<double>(longest);
  const double dearest = (column.linear + column.quadratic * length) * length;
  int room = kDigits - 1 - std::ilogb(most);
  if (dearest > 0)
    room = std::min(room, kCostDigits - 1 - std::ilogb(dearest * static_cast<double>(samples)));
  const auto is_whole = [](double value) { return value == std::floor(value); };
  int digits = std::min(room, 0);
  const auto scaled = [&](double value) { return std::ldexp(value, digits); };
  while (digits < room && !(is_whole(scaled(column.linear)) && is_whole(scaled(column.quadratic)))) ++digits;
  const Cost cost{std::llround(scaled(column.linear)), std::llround(scaled(column.quadratic)), scaled(1)};
  const double rounded =
      (static_cast<double>(cost.linear) + static_cast<double>(cost.quadratic) * length) * length / cost.unit;
  constexpr double kMostError = 0x1p-6;
  const bool is_close = std::abs(rounded - dearest) <= kMostError * dearest;
  return is_close ? cost : Cost{.linear = std::int64_t{1} << kCostDigits};  // too dear for arithmetic
}

std::string describe(Split split, const Balance& balance) {
  std::string text = fmt::format("rank_split {}\n", to_string(split));
  if (split != Split::balanced) return text;
  text += fmt::format("balance with equal_counts {}, micro_batches {}, micro_cost {}, padded {}",
                      balance.equal_counts, balance.micro_batches, balance.micro_cost, balance.padded);
  for (const LengthColumn& column : balance.columns) {
    text += fmt::format(", {} n + {} n^2 of lengths with fingerprint {}", column.linear, column.quadratic,
                        to_string(column.lengths.digest()));
  }
  return text + "\n";
}

void check(Split split, const Balance& balance, std::int64_t samples) {
  if (split != Split::balanced) {
    if (!balance.columns.empty())
      OptionCheck("split a batch").refuse("split", to_string(split), "balanced where a balance is given");
    return;
  }
  balance.validate();
  for (const LengthColumn& column : balance.columns) {
    if (column.lengths.size() == samples) continue;
    if (column.lengths.size() == 0 && !column.field.empty()) {
      throw failure(ErrorCode::invalid_argument,
                    "balance a batch: lengths of field \"{}\" are asked for by a loader, of its source; "
                    "without one, give lengths (lengths_of)",
                    column.field);
    }
    throw failure(ErrorCode::invalid_argument,
                  "balance a batch: there are lengths{} of {} samples, and {} samples; give one for each",
                  column.field.empty() ? "" : fmt::format(" (\"{}\")", column.field), column.lengths.size(),
                  samples);
  }
}

void BalancedBatch::deal(const Balance& balance, const RunSlice& whole, int ranks) {
  std::vector<Cost> costs;
  for (const LengthColumn& column : balance.columns) {
    for (const SampleId id : whole.ids) column.lengths.prefetch(id);
    std::int64_t longest = 0;
    for (const SampleId id : whole.ids) longest = std::max(longest, column.lengths[id]);
    costs.push_back(quantise(column, longest, std::ssize(whole.ids)));
  }
  columns_ = static_cast<std::size_t>(std::ranges::count_if(costs, &Cost::is_any));
  costs_.resize(whole.ids.size() * columns_);
  sums_.clear();
  std::size_t k = 0;
  for (std::size_t c = 0; c < costs.size(); ++c) {
    if (k == 0) unit_ = costs[c].unit;
    price(balance.columns[c].lengths, costs[c], whole, k);
    if (costs[c].is_any()) ++k;
  }
  is_padded_ = balance.padded;
  if (i128{ranks} * balance.micro_batches > kMostParts) {
    throw failure(ErrorCode::invalid_argument,
                  "balance a batch: {} ranks with {} micro-batches each are more than 2^24 parts; take fewer",
                  ranks, balance.micro_batches);
  }
  if (is_padded_) static_cast<void>(checked(i128{largest_} * std::ssize(whole.ids), whole.start));
  const double limit = std::clamp(std::floor(balance.micro_cost * unit_), 1.0, std::ldexp(1.0, 62));
  dealer_.deal(costs_, columns_,
               {.ranks = ranks,
                .micro_batches = balance.micro_batches,
                .limit = balance.micro_cost > 0 ? static_cast<std::int64_t>(limit) : 0,
                .are_counts_equal = balance.equal_counts,
                .is_padded = balance.padded});
  count(ranks);
}

// Of one column, which is the k-th of those that cost something, if it does.
void BalancedBatch::price(const Lengths& lengths, const Cost& cost, const RunSlice& whole, std::size_t k) {
  i128 sum = 0;
  i128 all = 0;
  std::int64_t largest = 0;
  for (std::size_t slot = 0; slot < whole.ids.size(); ++slot) {
    const std::int64_t length = lengths[whole.ids[slot]];
    sum += whole.kinds[slot] == SlotKind::sample ? length : 0;
    if (!cost.is_any()) continue;
    const i128 own = cost_of(cost, length);
    all += own;
    costs_[slot * columns_ + k] = static_cast<std::int64_t>(own);
    largest = std::max(largest, costs_[slot * columns_ + k]);
  }
  sums_.push_back(checked(sum, whole.start));
  static_cast<void>(checked(all, whole.start));
  if (k == 0) largest_ = largest;
}

// What each part costs, and what the dearest rank would have of equal slices, cut into as many parts.
void BalancedBatch::count(int ranks) {
  const std::int64_t slots = std::ssize(dealer_.parts());
  const std::int64_t micro_batches = dealer_.micro_batches();
  part_costs_.assign(static_cast<std::size_t>(ranks * micro_batches), {});
  by_sample_ = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::int64_t begin = share(slots, rank, ranks);
    const std::int64_t size = share(slots, rank + 1, ranks) - begin;
    double cost = 0;
    for (std::int64_t m = 0; m < micro_batches; ++m) {
      PartCost part;
      for (std::int64_t i = share(size, m, micro_batches); i < share(size, m + 1, micro_batches); ++i) {
        const auto slot = static_cast<std::size_t>(begin + i);
        part.add(costs_[slot * columns_]);
        part_costs_[static_cast<std::size_t>(dealer_.parts()[slot])].add(costs_[slot * columns_]);
      }
      cost += part.cost(is_padded_);
    }
    by_sample_ = std::max(by_sample_, cost);
  }
}

int BalancedBatch::rank_of(std::size_t slot) const {
  return static_cast<int>(dealer_.parts()[slot] / dealer_.micro_batches());
}

void BalancedBatch::take(int rank, const RunSlice& whole, RunSlice& out) const {
  const auto micro_batches = static_cast<std::size_t>(dealer_.micro_batches());
  const std::size_t first = static_cast<std::size_t>(rank) * micro_batches;
  out.micro_ends.resize(micro_batches);
  std::int64_t end = 0;
  for (std::size_t m = 0; m < micro_batches; ++m) out.micro_ends[m] = end += part_costs_[first + m].count;
  out.slots.resize(static_cast<std::size_t>(end));
  std::vector<std::int64_t> next(micro_batches);
  for (std::size_t m = 1; m < micro_batches; ++m) next[m] = out.micro_ends[m - 1];
  for (std::size_t slot = 0; slot < whole.ids.size(); ++slot) {
    const std::size_t part = static_cast<std::size_t>(dealer_.parts()[slot]) - first;
    if (part < micro_batches)
      out.slots[static_cast<std::size_t>(next[part]++)] = static_cast<std::int64_t>(slot);
  }
  out.global_sums = sums_;
  out.costs = {.most_by_sample = by_sample_ / unit_, .largest = static_cast<double>(largest_) / unit_};
  for (std::size_t p = 0; p < part_costs_.size(); p += micro_batches) {
    double cost = 0;
    for (std::size_t m = 0; m < micro_batches; ++m) cost += part_costs_[p + m].cost(is_padded_) / unit_;
    if (p == first) out.costs.rank = cost;
    out.costs.global += cost;
    out.costs.most = std::max(out.costs.most, cost);
  }
}

}  // namespace internal
}  // namespace rota
