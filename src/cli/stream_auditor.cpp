#include "cli/stream_auditor.hpp"

#include <fmt/format.h>

namespace rota::trace {

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
  check_samples();
  ledger_.close();
  report_.shards = ledger_.take_shards();
  for (const auto& [key, entries] : report_.shards) report_.samples += std::ssize(entries);
}

// Of each epoch that is over. There may be any number of them that have nothing, told as one.
void StreamAuditor::check_samples() {
  if (options_.samples.empty()) return;
  std::int64_t next = 0;
  for (const auto& [epoch, samples] : ledger_.samples_by_epoch()) {
    if (epoch >= at_.epoch) break;
    check_samples(next, epoch - 1, 0);
    check_samples(epoch, epoch, samples);
    next = epoch + 1;
  }
  check_samples(next, at_.epoch - 1, 0);
}

void StreamAuditor::check_samples(std::int64_t first_epoch, std::int64_t last_epoch, std::int64_t samples) {
  const std::int64_t expected = options_.samples.front();
  if (first_epoch > last_epoch || samples == expected) return;
  const auto epochs = first_epoch == last_epoch
                          ? fmt::format("epoch {} has", first_epoch)
                          : fmt::format("epochs {} to {} have", first_epoch, last_epoch);
  problems_->add({.kind = samples < expected ? ProblemKind::missing : ProblemKind::repeated,
                  .text = fmt::format("{} {} samples, not {}", epochs, samples, expected),
                  .count = last_epoch - first_epoch + 1});
}

}  // namespace rota::trace
