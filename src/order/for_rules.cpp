#include "order/for_rules.hpp"

#include <fmt/format.h>

#include <utility>

#include "core/failure.hpp"
#include "order/run_order.hpp"

namespace rota::internal {
namespace {

// Where the next new batch begins, behind steps that are left out.
std::optional<Position> next_of(const Run& run) {
  GlobalBatch batch;
  return RunAccess::path(run).batch(run.position(), batch) ? std::optional(batch.start) : std::nullopt;
}

bool is_left_out(const Run& run) { return RunAccess::path(run).is_skipped(run.position().step); }

bool is_over(const Run& run) {
  if (run.mixture() != nullptr) return run.position().step > 0 && run.is_over();
  return run.position().epoch >= RunAccess::epochs(run) || (is_left_out(run) && !next_of(run));
}

}  // namespace

bool begins_epoch(const Run& run) {
  return run.position().consumed < (RunAccess::tail(run) == Tail::carry ? run.global_batch_size() : 1);
}

bool ForRules::take_end(Run& run) {
  const bool was_over = std::exchange(is_epoch_over_, false);
  const auto next = !is_of_one_epoch_  ? std::nullopt
                    : is_left_out(run) ? next_of(run)
                                       : run.position_of(run.position().step);
  if (!next || next->epoch == run.position().epoch) return was_over;
  const bool is_behind = is_left_out(run);  // the rest of this epoch: the `for` is of the next one
  RunAccess::keep_open(run, [&] { run.seek(*next); });
  return was_over || !is_behind;
}

bool ForRules::begin(Run& run, std::string& said) {
  if (is_evaluation_) return true;
  if (take_end(run)) return false;
  const Position at = run.position();
  if (!is_of_one_epoch_ && is_over(run)) {
    if (std::exchange(is_restored_, false)) return false;
    throw failure(ErrorCode::invalid_argument,
                  "begin a `for`: the run is over (epochs={}); ask for more epochs, or leave epochs out of a "
                  "sampler for one in each `for`; or call restart(), or set evaluation=True, with which each "
                  "begins anew",
                  RunAccess::epochs(run));
  }
  if (begins_epoch(run) || is_restored_ || run.mixture() != nullptr) return true;
  said = fmt::format(
      "this `for` goes on in epoch {} behind sample {}, where the last one was left; to begin anew, call "
      "restart(); for a loader that always does, make it with evaluation=True",
      at.epoch, at.consumed);
  return true;
}

bool ForRules::ends(const Run& run) const {
  if (run.position().step == 0) return false;
  if (!is_of_one_epoch_) return is_over(run);
  const auto next = is_left_out(run) ? next_of(run) : std::nullopt;
  return begins_epoch(run) || (next && next->epoch != run.position().epoch);
}

bool ForRules::set_epoch(Run& run, std::int64_t epoch) {
  if (epoch < 0) throw failure(ErrorCode::out_of_range, "go to epoch {}: epochs begin with 0", epoch);
  const Position at = run.position();
  told_epoch_ = epoch;
  is_epoch_over_ = false;
  if (run.mixture() != nullptr || is_evaluation_ || (at.epoch == epoch && at.consumed == 0)) return false;
  if (is_restored_ && at.epoch - 1 == epoch && begins_epoch(run)) {
    is_epoch_over_ = true;
    return false;
  }
  const bool is_before = at.epoch > epoch;
  const bool is_passed = RunAccess::tail(run) == Tail::carry && at.epoch >= epoch;
  if (is_passed || (is_restored_ && at.epoch == epoch)) return false;
  if (is_restored_ && is_before) {
    throw failure(ErrorCode::invalid_argument,
                  "go to epoch {}: the state that was loaded is in epoch {}, so that one is over; call "
                  "restart() first to begin the run anew",
                  epoch, at.epoch);
  }
  if (!is_of_one_epoch_ && is_before) {
    throw failure(
        ErrorCode::invalid_argument,
        "go to epoch {}: epochs={}, so that a `for` goes on to the last epoch, and that one is "
        "over; leave epochs out for one epoch in each `for`, or call restart() to begin the run anew",
        epoch, RunAccess::epochs(run));
  }
  const auto go = [&] { run.seek({.epoch = epoch, .consumed = 0, .step = at.step}); };
  epoch > at.epoch ? RunAccess::keep_open(run, go) : go();  // what is open is before that place
  restarted();
  return true;
}

}  // namespace rota::internal
