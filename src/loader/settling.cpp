#include "loader/settling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/failure.hpp"
#include "core/message.hpp"
#include "core/owned.hpp"
#include "order/open_samples.hpp"

namespace rota::internal {

std::vector<SampleName> names_of(const Batch& batch) {
  std::vector<SampleName> names;
  for (std::size_t slot = 0; slot < batch.ids().size(); ++slot) {
    if (batch.kinds()[slot] == SlotKind::sample) names.push_back({batch.ids()[slot], batch.epochs()[slot]});
  }
  return names;
}

std::vector<SampleName> names_of(std::string_view verb, std::span<const SampleId> ids,
                                 std::span<const std::int64_t> epochs) {
  if (ids.size() != epochs.size()) {
    throw failure(ErrorCode::invalid_argument, "{} samples: {} ids, and {} epochs; give one for each", verb,
                  ids.size(), epochs.size());
  }
  std::vector<SampleName> names(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) names[i] = {ids[i], epochs[i]};
  return names;
}

OpenTurns turns_of(const Run& run, SampleNames names) {
  std::vector<SampleId> ids;
  std::vector<std::int64_t> epochs;
  for (const SampleName& name : names) {
    ids.push_back(name.id);
    epochs.push_back(name.epoch);
  }
  return RunAccess::turns_of(run, ids, epochs);
}

std::vector<SampleName> names_of(const Run& run, const OpenTurns& turns) {
  Run with = run;
  RunAccess::set_open(with, turns);
  const RunSlice open = with.open();
  std::vector<SampleName> names;
  for (std::size_t i = 0; i < open.ids.size(); ++i) names.push_back({open.ids[i], open.epochs[i]});
  return names;
}

const std::shared_ptr<Ledger>& Settling::require_ledger(std::string_view verb) const {
  require_here(made_, "samples that are settled by hand");
  if (is_by_hand_) return ledger_;
  throw failure(
      ErrorCode::invalid_argument,
      "{} samples: what is handed out here counts as trained; choose settle = by_hand where it is made",
      verb);
}

bool Settling::hand_out(Run& run, RunSlice& batch, const World& world) {
  const std::int64_t settled = is_by_hand_ ? ledger_->hand_out(batch, world.size == 1) : 0;
  RunAccess::pass(run, batch);
  batch.global_real -= settled;
  return settled == 0 || batch.global_real > 0;
}

void Settling::add_stats(LoaderStats& stats) const {
  const auto open = ledger_->counts();
  stats.open = open.out;
  stats.oldest_open = std::llround(open.oldest_seconds);
  stats.given_up = open.again;
  stats.dropped = open.dropped;
}

OpenTurns Settling::give(Run& run, const World& world, bool is_end) {
  if (is_by_hand_ && world.size == 1) {
    if (const auto names = ledger_->take_given_up(); !names.empty()) wait_for(turns_of(run, names));
  }
  const std::int64_t batch = is_end ? 1 : run.global_batch_size();
  const auto end = waiting_.begin() + std::ssize(waiting_) / batch * batch;
  OpenTurns now(waiting_.begin(), end);
  waiting_.erase(waiting_.begin(), end);
  if (!now.empty()) RunAccess::add_open(run, now);
  return now;
}

OpenTurns Settling::planned(const Run& run) const {
  const auto first = RunAccess::open(run);
  OpenTurns all(first.begin(), first.end());
  all.insert(all.end(), waiting_.begin(), waiting_.end());
  std::ranges::sort(all);
  return all;
}

OpenTurns Settling::coming(const Run& run, const World& world) const {
  OpenTurns all = planned(run);
  return !is_by_hand_ || world.size > 1 ? all : turns_of(run, ledger_->open_of(names_of(run, all)));
}

OpenTurns Settling::open(const Run& run, const World& world, SampleNames out) const {
  OpenTurns all = turns_of(run, out);
  if (is_by_hand_ && world.size == 1) return all;  // with what comes again
  const OpenTurns more = planned(run);
  all.insert(all.end(), more.begin(), more.end());
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

bool Settling::drop_rest(Run& run, const World& world) {
  const auto rest = coming(run, world);
  if (rest.empty()) return false;
  ledger_->drop_rest(names_of(run, rest), "tail", world.rank == 0 && world.replica == 0);
  RunAccess::set_open(run, {});
  return true;
}

void Settling::begin_anew(std::string_view by) {
  const std::size_t open = ledger_->restart(by);
  keep({}, {});
  if (open == 0) return;
  tell(
      fmt::format("{} begins anew where it goes: {} samples that were out or given up are not open any more, "
                  "and cannot be settled",
                  by, open));
}

void Settling::restart(const Run& run, const World& world, std::string_view by) {
  begin_anew(by);
  waiting_.clear();
  if (is_by_hand_ && world.size == 1) ledger_->expect(names_of(run, planned(run)));
}

void Settling::rescale(Run& run, const World& from, const World& to) {
  keep({}, {});
  if (is_by_hand_ && from.size > 1) ledger_->keep_from(run.position());  // others may have settled before it
  if (!is_by_hand_) return;
  const OpenTurns more = coming(run, from);  // all of it first, as where the state is restored
  RunAccess::set_open(run, more);
  waiting_.clear();
  if ((from.size == 1) == (to.size == 1)) return;
  const auto names = names_of(run, more);
  to.size == 1 ? ledger_->expect(names) : ledger_->forget(names);
}

Settling::Saved Settling::as_saved(const Run& run, const World& world) const {
  Ledger::Open open = ledger_->open(run.position());
  Saved saved{run, {}, std::move(open.dropped_before), std::move(open.dropped)};
  const bool is_whole =
      !is_by_hand_ || world.size == 1 ||
      (open.is_in_order && open.names.empty() && saved.dropped.empty() && open.place == run.position());
  if (is_whole)
    RunAccess::go_back(saved.run, open.place);
  else
    saved.back = open.place;
  OpenTurns all = this->open(run, world, open.names);
  std::erase_if(all, [&](const OpenTurn& one) { return !is_before(one, saved.run); });
  RunAccess::set_open(saved.run, std::move(all));
  return saved;
}

}  // namespace rota::internal
