#pragma once

// The schedule as the documentation tells it, with lists instead of arithmetic: what the real one is held
// against. And what it is held against it with, at random.

#include "order/order.hpp"
#include "order/schedule.hpp"
#include "test.hpp"

namespace rota::test {

/// The steps of a dataset, and whose turn it is in them.
struct Scheduled : Steps, Schedule {
  Scheduled(const Order& order, Tail tail, std::int64_t epochs)
      : Steps(order.plan().samples(), tail, epochs), Schedule(order) {}
};

/// The sample at `position` of a shard.
inline SampleId sample_at(const EpochOrder& order, std::int64_t shard, std::int64_t position) {
  const ShardSpan span{.epoch = order.epoch(), .shard = {shard}, .position = position, .count = 1};
  SampleId id;
  order.samples(std::span(&span, 1), &id);
  return id;
}

}  // namespace rota::test

namespace rota::test::naive {

struct Place {
  std::int64_t group;  // when its group comes
  std::int64_t shard;
  std::int64_t position;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 sees one in the defaulted operator
  friend auto operator<=>(const Place&, const Place&) = default;
};

/// All turns of `epoch`: group after group, round after round, every shard that still has a sample.
inline std::vector<Place> turns(const Order& order, std::int64_t epoch) {
  const ShardPlan& plan = order.plan();
  const auto groups = order.groups(epoch);
  std::vector<Place> all;
  for (std::int64_t k = 0; k < plan.groups(); ++k) {
    const std::int64_t group = groups ? (*groups)(k) : k;
    const std::size_t goal = all.size() + static_cast<std::size_t>(plan.group_samples(group));
    for (std::int64_t round = 0; all.size() < goal; ++round) {
      for (std::int64_t s = plan.group_first(group); s < plan.group_last(group); ++s) {
        if (plan.length(s) > round) all.push_back({k, s, round});
      }
    }
  }
  return all;
}

/// Turns [begin, end) in canonical order, as sample ids.
inline Numbers ids(const Order& order, std::int64_t epoch, const std::vector<Place>& turns,
                   std::int64_t begin, std::int64_t end) {
  std::vector<Place> part(turns.begin() + begin, turns.begin() + end);
  std::sort(part.begin(), part.end());
  const EpochOrder in_epoch = order.epoch(epoch);
  Numbers out;
  for (const Place& place : part) out.push_back(sample_at(in_epoch, place.shard, place.position).value);
  return out;
}

}  // namespace rota::test::naive

namespace rota::test {

/// The sample ids of a stretch of a shard.
inline Numbers ids_of(const EpochOrder& in_epoch, const ShardSpan& span) {
  std::vector<SampleId> samples(static_cast<std::size_t>(span.count));
  in_epoch.samples(std::span(&span, 1), samples.data());
  Numbers ids;
  for (const SampleId id : samples) ids.push_back(id.value);
  return ids;
}

}  // namespace rota::test
