// The audit of streams.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/auditor.hpp"

namespace rota::cli {
namespace {

using Key = StreamEntries::key_type;  // epoch, shard

bool is_same_id(const StreamEntry& a, const StreamEntry& b) {
  return a.input == b.input && a.output == b.output;
}

std::string name(const Key& key, const StreamEntry& entry) {
  return to_string(StreamId{.shard = {key.second}, .input = entry.input, .output = entry.output});
}

// Ticks off the samples of each shard, which come in the order of its stream. An epoch is over with the
// first step of the next one, or when the run has ended.
class StreamAuditor : public Auditor {
 public:
  StreamAuditor(const AuditOptions& options, const trace::TraceStart& first, Problems& problems)
      : Auditor(options, problems), shards_(first.shards) {}

 protected:
  // Nobody knows that an epoch is over before the next step is.
  [[nodiscard]] bool follows(const Position& start) const override {
    return start.step == at_.step && (start.epoch == at_.epoch || start.epoch == at_.epoch + 1);
  }
  [[nodiscard]] Position after(const Step& step) const override {
    return {.epoch = step.start.epoch, .consumed = 0, .step = step.start.step + 1};
  }
  void move_to(const Position& to, bool /*is_gap*/) override {
    if (to.epoch != at_.epoch) owners_.clear();
    at_ = to;
  }
  void check(const Step& step, bool counts, bool moves) override;
  void close() override;

 private:
  // Of a sample that was rolled back, which is only compared with what was delivered in its place.
  struct RolledBack {
    Key key;
    std::int64_t position;
    StreamEntry entry;
    std::int64_t phase;
    int rank;
  };

  void take(const Slice& slice, std::size_t i, bool counts);
  void place(const Key& key, std::int64_t position, const StreamEntry& entry, int rank);
  void check_owner(const Step& step, const Slice& slice);
  void check_rerun(const RolledBack& before);
  void check_twins(const Key& key, std::vector<StreamEntry> entries);
  void check_samples(const std::map<std::int64_t, std::int64_t>& samples_by_epoch);

  std::int64_t shards_;
  std::vector<RolledBack> rolled_back_;
  std::map<std::int64_t, int> owners_;  // of the shards of the epoch and phase at hand
  std::int64_t owned_in_ = -1;          // that phase
};

void StreamAuditor::check(const Step& step, bool counts, bool moves) {
  std::int64_t samples = 0;
  for (const Slice& slice : step.slices) {
    for (std::size_t i = 0; i < slice.batch->size(); ++i) take(slice, i, counts);
    samples += slice.batch->n;
    if (counts) check_owner(step, slice);
  }
  if (counts) phase().samples += samples;
  if (moves && samples == 0) add(ProblemKind::size, step, -1, "there is no sample in it");
}

void StreamAuditor::take(const Slice& slice, std::size_t i, bool counts) {
  const trace::TraceBatch& batch = *slice.batch;
  const StreamId& id = batch.stream_ids[i];
  const Key key{batch.start.epoch, id.shard.value};
  const StreamEntry entry{.input = id.input, .output = id.output, .digest = batch.digests[i]};
  if (id.shard.value >= shards_) {
    problems_->add({.kind = ProblemKind::range,
                    .phase = start_.phase,
                    .rank = slice.rank,
                    .text = fmt::format("{}: there are {} shards", to_string(id), shards_)});
  } else if (counts) {
    place(key, batch.positions[i], entry, slice.rank);
  } else {
    rolled_back_.push_back({key, batch.positions[i], entry, start_.phase, slice.rank});
  }
}

// What a shard gives comes in order, so its next sample has the next position.
void StreamAuditor::place(const Key& key, std::int64_t position, const StreamEntry& entry, int rank) {
  auto& entries = report_.shards[key];
  const std::int64_t next = std::ssize(entries);
  if (position == next) {
    entries.push_back(entry);
    return;
  }
  problems_->add({.kind = position < next ? ProblemKind::repeated : ProblemKind::missing,
                  .phase = start_.phase,
                  .rank = rank,
                  .text = fmt::format("epoch {}: {} is number {} of its shard, and the next was to be {}",
                                      key.first, name(key, entry), position, next)});
}

// Ranks own whole shards, for as long as the epoch and the phase last, unless they are dispatched to by
// sample.
void StreamAuditor::check_owner(const Step& step, const Slice& slice) {
  if (start_.split == Split::by_sample) return;
  if (owned_in_ != start_.phase) owners_.clear();
  owned_in_ = start_.phase;
  for (const StreamId& id : slice.batch->stream_ids) {
    const auto [owner, is_new] = owners_.try_emplace(id.shard.value, slice.rank);
    if (is_new || owner->second == slice.rank) continue;
    add(ProblemKind::owner, step, slice.rank,
        fmt::format("it has {}, of a shard that rank {} owns", to_string(id), owner->second));
  }
}

void StreamAuditor::close() {
  if (end_ && follows(end_->at)) move_to(end_->at, false);
  std::map<std::int64_t, std::int64_t> samples_by_epoch;
  for (const auto& [key, entries] : report_.shards) {
    samples_by_epoch[key.first] += std::ssize(entries);
    report_.samples += std::ssize(entries);
  }
  if ((options_.complete || options_.epochs) && samples_by_epoch[at_.epoch] > 0) {
    problems_->add({.kind = ProblemKind::unfinished,
                    .text = fmt::format("the run stands at {}, and has not ended", text(at_))});
  } else if (options_.epochs && at_.epoch != *options_.epochs) {
    problems_->add(
        {.kind = ProblemKind::unfinished,
         .text = fmt::format("the run has {} complete epochs, not {}", at_.epoch, *options_.epochs)});
  }
  if (!options_.samples.empty()) check_samples(samples_by_epoch);
  for (const RolledBack& before : rolled_back_) check_rerun(before);
  for (const auto& [key, entries] : report_.shards) check_twins(key, entries);
}

// Of each epoch that is over. There may be any number of them that have nothing, told as one.
void StreamAuditor::check_samples(const std::map<std::int64_t, std::int64_t>& samples_by_epoch) {
  const std::int64_t expected = options_.samples.front();
  const auto check = [&](std::int64_t first, std::int64_t last, std::int64_t samples) {
    if (first > last || samples == expected) return;
    const auto epochs =
        first == last ? fmt::format("epoch {} has", first) : fmt::format("epochs {} to {} have", first, last);
    problems_->add({.kind = samples < expected ? ProblemKind::missing : ProblemKind::repeated,
                    .text = fmt::format("{} {} samples, not {}", epochs, samples, expected),
                    .count = last - first + 1});
  };
  std::int64_t next = 0;
  for (const auto& [epoch, samples] : samples_by_epoch) {
    if (epoch >= at_.epoch) break;
    check(next, epoch - 1, 0);
    check(epoch, epoch, samples);
    next = epoch + 1;
  }
  check(next, at_.epoch - 1, 0);
}

void StreamAuditor::check_rerun(const RolledBack& before) {
  const auto found = report_.shards.find(before.key);
  if (found == report_.shards.end() || before.position >= std::ssize(found->second)) return;
  const StreamEntry& entry = found->second[static_cast<std::size_t>(before.position)];
  if (entry == before.entry) return;
  const bool has_other_bytes = is_same_id(entry, before.entry);
  problems_->add({.kind = has_other_bytes ? ProblemKind::content : ProblemKind::order,
                  .phase = before.phase,
                  .rank = before.rank,
                  .text = fmt::format("epoch {}: {} was rolled back, and came out as {}{} when run again",
                                      before.key.first, name(before.key, before.entry),
                                      name(before.key, entry), has_other_bytes ? " with other bytes" : "")});
}

void StreamAuditor::check_twins(const Key& key, std::vector<StreamEntry> entries) {
  std::ranges::sort(entries);
  const auto twin = std::ranges::adjacent_find(entries, is_same_id);
  if (twin == entries.end()) return;
  problems_->add({.kind = ProblemKind::repeated,
                  .text = fmt::format("epoch {}: {} was delivered twice", key.first, name(key, *twin))});
}

}  // namespace

std::unique_ptr<Auditor> make_stream_auditor(const AuditOptions& options, const trace::TraceStart& first,
                                             Problems& problems) {
  return std::make_unique<StreamAuditor>(options, first, problems);
}

}  // namespace rota::cli
