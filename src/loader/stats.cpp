#include "rota/stats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>
#include <utility>

#include "ranks/collectives.hpp"

namespace rota {

namespace {

// Eighths of a microsecond; the first sixteen have a bucket each.
constexpr double kUnit = 1 / 8e6;
constexpr std::uint64_t kMost = (std::uint64_t{1} << 34) - 1;

// A bucket has what differs in none of the highest four bits.
std::size_t bucket_of(double seconds) noexcept {
  const double units = std::clamp(seconds / kUnit, 0.0, static_cast<double>(kMost));
  const auto whole = static_cast<std::uint64_t>(units);
  const int exponent = std::max(static_cast<int>(std::bit_width(whole)), 4) - 4;
  return static_cast<std::size_t>(8 * exponent) + (whole >> exponent);
}

double middle_of(std::size_t bucket) noexcept {
  const std::size_t exponent = bucket < 16 ? 0 : bucket / 8 - 1;
  const std::uint64_t least = (bucket - 8 * exponent) << exponent;
  const std::uint64_t width = std::uint64_t{1} << exponent;
  return (static_cast<double>(least) + static_cast<double>(width) / 2) * kUnit;
}

}  // namespace

void Durations::add(double seconds) noexcept {
  ++counts_[bucket_of(seconds)];
  ++count_;
  seconds_ += seconds;
}

double Durations::quantile(double share) const noexcept {
  if (count_ == 0) return 0;
  const auto rank = std::clamp<std::int64_t>(
      static_cast<std::int64_t>(std::ceil(share * static_cast<double>(count_))), 1, count_);
  std::size_t bucket = 0;
  for (std::int64_t seen = counts_[0]; seen < rank;) seen += counts_[++bucket];
  return middle_of(bucket);
}

// ---- ranks ----

namespace {

using Spread = RankComparison::Spread;

// Seconds a batch, as RankComparison has them.
using Means = std::array<double, 4>;

Means means_since(const LoaderStats& now, const LoaderStats& before) {
  const auto batches = static_cast<double>(std::max<std::int64_t>(now.batches - before.batches, 1));
  const auto of_workers = [&](Durations LoaderStats::Worker::*which) {
    double seconds = 0;
    for (const LoaderStats::Worker& worker : now.workers) seconds += (worker.*which).seconds();
    for (const LoaderStats::Worker& worker : before.workers) seconds -= (worker.*which).seconds();
    return seconds / batches / static_cast<double>(std::max<std::size_t>(now.workers.size(), 1));
  };
  return {(now.waits.seconds() - before.waits.seconds()) / batches, of_workers(&LoaderStats::Worker::reads),
          of_workers(&LoaderStats::Worker::transforms),
          (now.steps.seconds() - before.steps.seconds()) / batches};
}

// One of the means, by rank.
std::vector<std::pair<double, int>> ascending(const std::vector<Means>& all, std::size_t which) {
  std::vector<std::pair<double, int>> values;
  values.reserve(all.size());
  for (const Means& one : all) values.emplace_back(one[which], static_cast<int>(values.size()));
  std::ranges::sort(values, {}, [](const auto& value) { return value.first; });
  return values;
}

// The middle one of so many, or the mean of the two.
double median(const std::vector<std::pair<double, int>>& ascending, std::size_t size) {
  return size == 0 ? 0 : (ascending[(size - 1) / 2].first + ascending[size / 2].first) / 2;
}

Spread spread(const std::vector<std::pair<double, int>>& values) {
  return {values.front().first, median(values, values.size()), values.back().first, values.back().second};
}

std::string ms(double seconds) { return fmt::format("{:.{}f} ms", seconds * 1e3, seconds < 0.01 ? 1 : 0); }

}  // namespace

RankComparison compare_ranks(const Communicator& comm, const LoaderStats& now, const LoaderStats& before) {
  const Means mine = means_since(now, before);
  const std::vector<Means> all = ranks::all_gather(comm, std::span(&mine, 1));
  const auto slowest = ranks::all_gather(comm, "compare what ranks wait for", now.slowest.slowest);
  const auto waits = ascending(all, 0);
  RankComparison found{
      spread(waits), spread(ascending(all, 1)), spread(ascending(all, 2)), spread(ascending(all, 3)), {}};
  const auto late = static_cast<std::size_t>(found.wait.rank);
  const double usual = median(waits, waits.size() - 1);
  if (all.size() < 2 || found.wait.most < std::max(2 * usual, usual + 1e-3)) return found;
  const std::string what = all[late][2] > all[late][1] ? "its transform"
                           : slowest[late].empty()     ? "its reads"
                                                       : "reads of " + slowest[late];
  found.straggler =
      fmt::format("rank {} waits for {}: {} a batch, others {}", late, what, ms(found.wait.most), ms(usual));
  return found;
}

}  // namespace rota
