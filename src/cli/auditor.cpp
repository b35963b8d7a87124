#include "cli/auditor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/sample_auditor.hpp"
#include "cli/stream_auditor.hpp"

namespace rota::trace {

void Auditor::begin_phase(const TraceStart& start, std::int64_t limit, bool may_run) {
  start_ = start;
  limit_ = limit;
  may_run_ = may_run;
  end_.reset();
  report_.phases.push_back({.start = start});
  if (start.from.step >= limit || start.from == at_) return;
  const bool is_gap = !follows(start.from);
  if (is_gap) {
    add(ProblemKind::gap,
        fmt::format("resumed from {}, but the batches before lead to {}",
                    to_string(start.from, start.is_stream()), to_string(at_, start.is_stream())));
  }
  move_to(start.from, is_gap);
}

void Auditor::step(const Step& step) {
  const bool counts = is_effective(step);
  check_lockstep(step, counts);
  const bool moves = counts && !step.is_stray();
  if (moves && step.start != at_) {
    const bool is_gap = !follows(step.start);
    if (is_gap) {
      add(ProblemKind::gap, step, -1,
          fmt::format("the next batch should start at {}", to_string(at_, start_.is_stream())));
    }
    if (step.start.step >= at_.step) move_to(step.start, is_gap);
  }
  check(step, counts, moves);
  if (!counts) ++phase().rolled_back;
  if (!moves) return;
  ++phase().steps;
  if (const Position next = after(step); next.step > at_.step) move_to(next, false);
}

void Auditor::end_phase(const std::vector<std::optional<TraceEnd>>& ends) {
  const bool have_all_ended = std::ssize(ends) == start_.world.size &&
                              std::ranges::all_of(ends, [](const auto& end) { return end.has_value(); });
  if (!have_all_ended) return;
  end_ = ends.front();
  if (end_->at.step > limit_) return;  // some of what they did was rolled back
  for (const auto& end : ends) {
    if (end->at == ends.front()->at && (end->at == at_ || follows(end->at))) continue;
    add(ProblemKind::lockstep,
        fmt::format("a rank ended at {}, and the batches lead to {}", to_string(end->at, start_.is_stream()),
                    to_string(at_, start_.is_stream())));
  }
}

AuditReport Auditor::finish() {
  close();
  report_.end = at_;
  return std::move(report_);
}

void Auditor::check_lockstep(const Step& step, bool counts) {
  const bool is_stray = step.is_stray();
  for (const Slice& slice : step.slices) {
    const bool is_present = slice.state == Slice::State::present;
    if (is_present && slice.batch->start != step.start) {
      add(ProblemKind::lockstep, step, slice.rank,
          fmt::format("says that the step is at {}", to_string(slice.batch->start, start_.is_stream())));
    }
    if (is_present && !start_.is_stream() && slice.batch->n != step.n) {
      add(ProblemKind::lockstep, step, slice.rank,
          fmt::format("says that the global batch has {} slots, where another rank says {}", slice.batch->n,
                      step.n));
    }
    if (!counts) continue;  // ranks of a killed phase end where they end
    if (is_stray && is_present) {
      add(ProblemKind::lockstep, step, slice.rank, "has a batch here that most ranks do not have");
    } else if (!is_stray && slice.state == Slice::State::absent) {
      add(ProblemKind::lockstep, step, slice.rank, "has no batch here, where other ranks do");
    } else if (!is_stray && slice.state == Slice::State::ended) {
      add(ProblemKind::lockstep, step, slice.rank, "ends before this batch, where other ranks go on");
    }
  }
}

bool Auditor::is_effective(const Step& step) const {
  if (step.start.step >= limit_) return false;
  if (!may_run_) return true;
  // What not all ranks of a running phase have written yet is still on its way.
  return std::ranges::none_of(step.slices,
                              [](const Slice& slice) { return slice.state == Slice::State::ended; });
}

void Auditor::add(ProblemKind kind, const Step& step, int rank, std::string text) {
  problems_->add({.kind = kind,
                  .phase = start_.phase,
                  .rank = rank,
                  .where = to_string(step.start, start_.is_stream()),
                  .text = std::move(text)});
}

void Auditor::add(ProblemKind kind, std::string text) {
  problems_->add({.kind = kind, .phase = start_.phase, .text = std::move(text)});
}

std::unique_ptr<Auditor> make_auditor(const AuditOptions& options, const TraceStart& first,
                                      Problems& problems) {
  if (first.is_stream()) return std::make_unique<StreamAuditor>(options, first, problems);
  return std::make_unique<SampleAuditor>(options, first, problems);
}

}  // namespace rota::trace
