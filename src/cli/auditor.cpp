#include "cli/auditor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>
#include <utility>

namespace rota::tracing {
namespace {

template <typename T>
std::uint64_t hash(const std::vector<T>& values) {
  return XXH3_64bits(values.data(), values.size() * sizeof(T));
}

std::string describe(const Missing& missing, std::int64_t samples, std::int64_t dropped) {
  const auto epochs = missing.first_epoch == missing.last_epoch
                          ? fmt::format("epoch {}", missing.first_epoch)
                          : fmt::format("epochs {} to {}", missing.first_epoch, missing.last_epoch);
  std::string text = fmt::format("{} lacks {} of {} samples", epochs, missing.count, samples);
  if (dropped > 0) text += fmt::format(", where the tail may drop {}", dropped);
  if (missing.first_ids.empty()) return text;
  const bool all = missing.count == static_cast<std::int64_t>(missing.first_ids.size());
  return fmt::format("{}: {}{}", text, fmt::join(missing.first_ids, ", "), all ? "" : ", ...");
}

}  // namespace

Auditor::Auditor(const AuditOptions& options, Problems& problems)
    : options_(options), problems_(&problems), coverage_(options.samples), contents_(options.samples) {}

void Auditor::begin_phase(const TraceStart& start, std::optional<Place> limit, bool may_run) {
  const bool counts = !limit || start.resumed_from < *limit;
  if (counts && start.resumed_from != at_) {
    problems_->add({.kind = ProblemKind::gap,
                    .phase = start.phase,
                    .text = fmt::format("resumed from {}, but the batches before lead to {}",
                                        to_string(start.resumed_from), to_string(at_))});
    move_to(start.resumed_from, 0);
  }
  start_ = start;
  limit_ = limit;
  may_run_ = may_run;
  short_carry_.reset();
  report_.phases.push_back({.start = start});
}

void Auditor::step(const Step& step) {
  const bool counts = is_effective(step);
  check_lockstep(step, counts);
  check_size(step);
  const bool moves = counts && !step.is_stray();
  if (moves) check_place(step);
  check_slices(step, counts);
  if (!counts) {
    ++report_.phases.back().rolled_back;
    keep_rolled_back(step);
  }
  if (!moves) return;

  assemble(step);
  check_rerun(step);
  report_.batches.push_back(
      {step.place, step.n, hash(canonical_.ids), hash(canonical_.marks), hash(canonical_.digests)});
  ++report_.phases.back().steps;
  const Place next = after(step);
  const bool drops = start_.tail == Tail::drop && next.consumed == 0;
  const std::int64_t dropped = drops ? options_.samples - step.place.consumed - step.n : 0;
  if (next > at_) move_to(next, std::max<std::int64_t>(dropped, 0));
}

void Auditor::end_phase(const std::vector<std::optional<TraceEnd>>& ends) {
  TraceEnd slowest;
  for (const auto& end : ends) {
    if (!end) return;
    slowest.steps = std::max(slowest.steps, end->steps);
    slowest.samples += end->samples;
    slowest.restore_seconds = std::max(slowest.restore_seconds, end->restore_seconds);
    slowest.save_seconds = std::max(slowest.save_seconds, end->save_seconds);
  }
  report_.phases.back().end = slowest;
}

AuditReport Auditor::finish() {
  // Nothing more comes of an epoch whose rest is dropped.
  const bool is_whole = at_.consumed == 0 || drops_to({at_.epoch + 1, 0});
  if (at_.consumed > 0 && is_whole) move_to({at_.epoch + 1, 0}, left());
  const bool has_batches =
      options_.samples > 0 && !(start_.tail == Tail::drop && options_.samples < start_.batch);
  if ((options_.complete || options_.epochs) && !is_whole) {
    problems_->add({.kind = ProblemKind::unfinished,
                    .text = fmt::format("the run stands at {} of {}", to_string(at_), options_.samples)});
  } else if (options_.epochs && at_.epoch != *options_.epochs && has_batches) {
    problems_->add(
        {.kind = ProblemKind::unfinished,
         .text = fmt::format("the run has {} complete epochs, not {}", at_.epoch, *options_.epochs)});
  }
  report_.end = at_;
  return std::move(report_);
}

void Auditor::check_lockstep(const Step& step, bool counts) {
  const bool is_stray = step.is_stray();
  for (const Slice& slice : step.slices) {
    const bool is_present = slice.state == Slice::State::present;
    if (is_present && slice.batch->n != step.n) {
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

void Auditor::check_size(const Step& step) {
  if (short_carry_) {
    add(ProblemKind::size, step, -1,
        fmt::format("a batch before this one, at {}, is short; under carry only the last may be",
                    to_string(*short_carry_)));
    short_carry_.reset();
  }
  const std::int64_t rest = options_.samples - step.place.consumed;
  if (rest <= 0) {
    add(ProblemKind::range, step, -1, fmt::format("the dataset has {} samples", options_.samples));
    return;
  }
  std::int64_t expected = start_.batch;
  if (start_.tail == Tail::partial) expected = std::min(expected, rest);
  if (start_.tail == Tail::carry && step.n > 0 && step.n < expected && after(step).consumed == 0) {
    short_carry_ = step.place;
    return;
  }
  if (start_.tail == Tail::drop && rest < expected) {
    add(ProblemKind::size, step, -1,
        fmt::format("a batch where only {} samples are left; drop ends here", rest));
  } else if (step.n != expected) {
    add(ProblemKind::size, step, -1, fmt::format("{} slots, not {}", step.n, expected));
  }
}

void Auditor::check_place(const Step& step) {
  if (step.place == at_) return;
  if (drops_to(step.place)) {
    move_to(step.place, left());
    return;
  }
  add(ProblemKind::gap, step, -1, fmt::format("the next batch should start at {}", to_string(at_)));
  if (step.place > at_) move_to(step.place, 0);
}

void Auditor::move_to(const Place& place, std::int64_t dropped) {
  const std::int64_t closing = at_.epoch;
  at_ = place;
  for (const Missing& missing : coverage_.close_before(place.epoch)) {
    const std::int64_t allowed = missing.first_epoch == closing ? dropped : 0;
    if (missing.count <= allowed) {
      report_.dropped += missing.count;
      continue;
    }
    problems_->add({.kind = ProblemKind::missing,
                    .phase = start_.phase,
                    .text = describe(missing, options_.samples, allowed),
                    .count = missing.last_epoch - missing.first_epoch + 1});
  }
}

bool Auditor::is_effective(const Step& step) const {
  if (limit_ && step.place >= *limit_) return false;
  if (!may_run_) return true;
  // What not all ranks of a running phase have written yet is still on its way.
  return std::ranges::none_of(step.slices,
                              [](const Slice& slice) { return slice.state == Slice::State::ended; });
}

bool Auditor::drops_to(const Place& place) const {
  return start_.tail == Tail::drop && place == Place{at_.epoch + 1, 0} && left() < start_.batch;
}

Place Auditor::after(const Step& step) const {
  const std::int64_t samples = options_.samples;
  const auto [epoch, consumed] = step.place;
  const std::int64_t end = consumed + step.n;
  if (samples <= 0) return step.place;
  if (start_.tail == Tail::carry) return {epoch + end / samples, end % samples};
  const bool is_last = end >= samples || (start_.tail == Tail::drop && samples - end < start_.batch);
  return is_last ? Place{epoch + 1, 0} : Place{epoch, end};
}

Auditor::PieceKey Auditor::key_of(const Step& step) const {
  const bool straddles = step.place.consumed + step.n > options_.samples;
  return {step.place, step.n, straddles ? static_cast<int>(start_.tail) : -1};
}

void Auditor::add(ProblemKind kind, const Step& step, int rank, std::string text) {
  problems_->add(
      {.kind = kind, .phase = start_.phase, .rank = rank, .place = step.place, .text = std::move(text)});
}

}  // namespace rota::tracing
