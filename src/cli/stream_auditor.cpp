#include "cli/stream_auditor.hpp"

#include <fmt/format.h>

namespace rota::tracing {

// Nobody knows that an epoch is over before the next step is.
bool StreamAuditor::follows(const Position& start) const {
  return start.step == at_.step && (start.epoch == at_.epoch || start.epoch == at_.epoch + 1);
}

Position StreamAuditor::after(const Step& step) const {
  return {.epoch = step.start.epoch, .consumed = 0, .step = step.start.step + 1};
}

void StreamAuditor::move_to(const Position& to, bool /*is_gap*/) {
  if (to.epoch != at_.epoch) owners_.clear();
  at_ = to;
}

void StreamAuditor::check(const Step& step, bool counts, bool moves) {
  std::int64_t samples = 0;
  for (const Slice& slice : step.slices) {
    if (slice.state != Slice::State::present) continue;
    ledger_.add(start_.phase, slice.rank, *slice.batch, !counts);
    samples += slice.batch->n;
    if (counts) check_owner(step, slice);
  }
  if (counts) phase().samples += samples;
  if (moves && samples == 0) add(ProblemKind::size, step, -1, "there is no sample in it");
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
        fmt::format("it has {}, of a shard that rank {} owns", rota::to_string(id), owner->second));
  }
}

void StreamAuditor::close() {
  if (end_ && follows(end_->at)) move_to(end_->at, false);
  const bool is_whole = ledger_.samples(at_.epoch) == 0;
  if ((options_.complete || options_.epochs) && !is_whole) {
    problems_->add({.kind = ProblemKind::unfinished,
                    .text = fmt::format("the run stands at {}, and has not ended", to_string(at_, true))});
  } else if (options_.epochs && at_.epoch != *options_.epochs) {
    problems_->add(
        {.kind = ProblemKind::unfinished,
         .text = fmt::format("the run has {} complete epochs, not {}", at_.epoch, *options_.epochs)});
  }
  for (std::int64_t epoch = 0; epoch < at_.epoch; ++epoch) check_samples(epoch);
  ledger_.close();
  report_.shards = ledger_.take_shards();
  for (const auto& [key, entries] : report_.shards) report_.samples += std::ssize(entries);
}

void StreamAuditor::check_samples(std::int64_t epoch) {
  if (options_.samples.empty()) return;
  const std::int64_t samples = ledger_.samples(epoch);
  const std::int64_t expected = options_.samples.front();
  if (samples == expected) return;
  problems_->add({.kind = samples < expected ? ProblemKind::missing : ProblemKind::repeated,
                  .text = fmt::format("epoch {} has {} samples, not {}", epoch, samples, expected)});
}

}  // namespace rota::tracing
