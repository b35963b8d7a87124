#include "cli/stream_ledger.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rota::trace {
namespace {

std::string name(const StreamLedger::Key& key, const StreamEntry& entry) {
  return rota::to_string(StreamId{.shard = {key.second}, .input = entry.input, .output = entry.output});
}

}  // namespace

void StreamLedger::add(std::int64_t phase, int rank, const TraceBatch& batch, bool is_rolled_back) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const StreamId& id = batch.stream_ids[i];
    const Key key{batch.start.epoch, id.shard.value};
    const StreamEntry entry{.input = id.input, .output = id.output, .digest = batch.digests[i]};
    Problem problem{.kind = ProblemKind::range, .phase = phase, .rank = rank, .text = {}};
    if (id.shard.value >= shards_) {
      problem.text = fmt::format("{}: there are {} shards", rota::to_string(id), shards_);
      problems_->add(std::move(problem));
    } else if (is_rolled_back) {
      rolled_back_.push_back(
          {.key = key, .position = batch.positions[i], .entry = entry, .phase = phase, .rank = rank});
    } else {
      place(key, batch.positions[i], entry, std::move(problem));
    }
  }
}

// What a shard gives comes in order, so its next sample has the next position.
void StreamLedger::place(const Key& key, std::int64_t position, const StreamEntry& entry, Problem problem) {
  auto& entries = entries_[key];
  const std::int64_t next = std::ssize(entries);
  problem.text = fmt::format("epoch {}: {} is number {} of its shard, and the next was to be {}", key.first,
                             name(key, entry), position, next);
  if (position < next) {
    problem.kind = ProblemKind::repeated;
    problems_->add(std::move(problem));
  } else if (position > next) {
    problem.kind = ProblemKind::missing;
    problems_->add(std::move(problem));
  } else {
    entries.push_back(entry);
  }
}

void StreamLedger::close() {
  for (const RolledBack& other : rolled_back_) compare(other);
  for (const auto& [key, entries] : entries_) find_twins(key, entries);
}

void StreamLedger::compare(const RolledBack& other) {
  const auto found = entries_.find(other.key);
  if (found == entries_.end() || other.position >= std::ssize(found->second)) return;
  const StreamEntry& entry = found->second[static_cast<std::size_t>(other.position)];
  if (entry == other.entry) return;
  const bool is_same_id = entry.input == other.entry.input && entry.output == other.entry.output;
  problems_->add({.kind = is_same_id ? ProblemKind::content : ProblemKind::order,
                  .phase = other.phase,
                  .rank = other.rank,
                  .text = fmt::format("epoch {}: {} was rolled back, and came out as {}{} when run again",
                                      other.key.first, name(other.key, other.entry), name(other.key, entry),
                                      is_same_id ? " with other bytes" : "")});
}

void StreamLedger::find_twins(const Key& key, std::vector<StreamEntry> entries) {
  std::ranges::sort(entries);
  const auto twin = std::ranges::adjacent_find(entries, [](const StreamEntry& a, const StreamEntry& b) {
    return a.input == b.input && a.output == b.output;
  });
  if (twin == entries.end()) return;
  problems_->add({.kind = ProblemKind::repeated,
                  .text = fmt::format("epoch {}: {} was delivered twice", key.first, name(key, *twin))});
}

std::int64_t StreamLedger::samples(std::int64_t epoch) const {
  std::int64_t sum = 0;
  for (auto at = entries_.lower_bound({epoch, 0}); at != entries_.end() && at->first.first == epoch; ++at) {
    sum += std::ssize(at->second);
  }
  return sum;
}

std::map<std::int64_t, std::int64_t> StreamLedger::samples_by_epoch() const {
  std::map<std::int64_t, std::int64_t> sums;
  for (const auto& [key, entries] : entries_) sums[key.first] += std::ssize(entries);
  return sums;
}

}  // namespace rota::trace
