#include "cli/auditor.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rota::cli {
namespace {

using trace::TraceFile;

// Walks through the steps of one phase, all ranks side by side. Ranks are matched by the numbers of their
// steps, so that one record too few or too many does not shift all that follows.
class PhaseSteps {
 public:
  // Opens `files`, one per rank, in order of rank. Damaged records are added to `problems`.
  PhaseSteps(const std::vector<std::filesystem::path>& files, Problems& problems) : problems_(problems) {
    for (const auto& file : files) readers_.push_back({.file = TraceFile(file), .batch = {}});
    for (Reader& reader : readers_) advance(reader);
  }

  // The next step, into `step`; false after the last.
  bool next(Step& step) {
    const Reader* lowest = nullptr;
    for (Reader& reader : readers_) {
      if (reader.is_taken) advance(reader);
      if (!reader.has_batch) continue;
      if (lowest == nullptr || reader.batch.start.step < lowest->batch.start.step) lowest = &reader;
    }
    if (lowest == nullptr) return false;

    step = {.start = lowest->batch.start, .n = lowest->batch.n, .slices = {}, .absent = {}};
    for (Reader& reader : readers_) {
      const int rank = reader.file.start()->world.rank;
      reader.is_taken = reader.has_batch && reader.batch.start.step == step.start.step;
      if (reader.is_taken) {
        step.slices.push_back({.rank = rank, .batch = &reader.batch});
      } else {
        step.absent.push_back({.rank = rank,
                               .reason = reader.had_damage  ? Absence::Reason::damaged
                                         : reader.has_batch ? Absence::Reason::passed
                                                            : Absence::Reason::ended});
      }
    }
    return true;
  }

  // The end records read so far, by file; nothing where a rank has none.
  [[nodiscard]] std::vector<std::optional<trace::TraceEnd>> ends() const {
    std::vector<std::optional<trace::TraceEnd>> ends;
    for (const Reader& reader : readers_) ends.push_back(reader.file.end());
    return ends;
  }

 private:
  struct Reader {
    TraceFile file;
    trace::TraceBatch batch;
    bool has_batch = false;
    bool had_damage = false;  // since the batch before
    bool is_taken = false;    // the last step handed its batch out
  };

  void advance(Reader& reader) {
    reader.had_damage = false;
    while (true) {
      const TraceFile::Next next = reader.file.next(reader.batch);
      reader.has_batch = next == TraceFile::Next::batch;
      if (next != TraceFile::Next::damaged) return;
      reader.had_damage = true;
      const trace::TraceStart& start = *reader.file.start();
      problems_.add({.kind = ProblemKind::format,
                     .phase = start.phase,
                     .rank = start.world.rank,
                     .text = reader.file.damage()});
    }
  }

  std::vector<Reader> readers_;
  Problems& problems_;
};

}  // namespace

void Auditor::audit_phase(const trace::TraceStart& start, const std::vector<std::filesystem::path>& files,
                          std::int64_t limit, bool may_run) {
  start_ = start;
  end_.reset();
  report_.phases.push_back({.start = start});
  if (start.from.step < limit && start.from != at_) {
    const bool is_gap = !follows(start.from);
    if (is_gap) {
      add(ProblemKind::gap,
          fmt::format("resumed from {}, but the batches before lead to {}", text(start.from), text(at_)));
    }
    move_to(start.from, is_gap);
  }
  PhaseSteps steps(files, *problems_);
  for (Step step; steps.next(step);) {
    // What not all ranks of a running phase have written yet is still on its way.
    const bool is_written = !may_run || std::ranges::none_of(step.absent, [](const Absence& absence) {
      return absence.reason == Absence::Reason::ended;
    });
    audit_step(step, is_written && step.start.step < limit);
  }
  check_ends(steps.ends(), limit);
}

void Auditor::audit_step(const Step& step, bool counts) {
  check_lockstep(step, counts);
  const bool moves = counts && !step.is_stray();
  if (moves && step.start != at_) {
    const bool is_gap = !follows(step.start);
    if (is_gap) add(ProblemKind::gap, step, -1, fmt::format("the next batch should start at {}", text(at_)));
    if (step.start.step >= at_.step) move_to(step.start, is_gap);
  }
  check(step, counts, moves);
  if (!counts) ++phase().rolled_back;
  if (!moves) return;
  ++phase().steps;
  if (const Position next = after(step); next.step > at_.step) move_to(next, false);
}

void Auditor::check_ends(const std::vector<std::optional<trace::TraceEnd>>& ends, std::int64_t limit) {
  const bool have_all_ended = std::ssize(ends) == start_.world.size &&
                              std::ranges::all_of(ends, [](const auto& end) { return end.has_value(); });
  if (!have_all_ended) return;
  end_ = ends.front();
  if (end_->at.step > limit) return;  // some of what they did was rolled back
  for (const auto& end : ends) {
    if (end->at == end_->at && (end->at == at_ || follows(end->at))) continue;
    add(ProblemKind::lockstep,
        fmt::format("a rank ended at {}, and the batches lead to {}", text(end->at), text(at_)));
  }
}

AuditReport Auditor::finish() {
  close();
  report_.end = at_;
  return std::move(report_);
}

void Auditor::check_lockstep(const Step& step, bool counts) {
  for (const auto& [rank, batch] : step.slices) {
    if (batch->start != step.start)
      add(ProblemKind::lockstep, step, rank, "says that the step is at " + text(batch->start));
    if (!start_.is_stream() && batch->n != step.n) {
      add(ProblemKind::lockstep, step, rank,
          fmt::format("says that the global batch has {} slots, where another rank says {}", batch->n,
                      step.n));
    }
    if (counts && step.is_stray())
      add(ProblemKind::lockstep, step, rank, "has a batch here that most ranks do not have");
  }
  if (!counts || step.is_stray()) return;  // ranks of a killed phase end where they end
  for (const auto& [rank, reason] : step.absent) {
    if (reason == Absence::Reason::passed)
      add(ProblemKind::lockstep, step, rank, "has no batch here, where other ranks do");
    if (reason == Absence::Reason::ended)
      add(ProblemKind::lockstep, step, rank, "ends before this batch, where other ranks go on");
  }
}

void Auditor::add(ProblemKind kind, const Step& step, int rank, std::string text) {
  problems_->add({.kind = kind,
                  .phase = start_.phase,
                  .rank = rank,
                  .where = this->text(step.start),
                  .text = std::move(text)});
}

void Auditor::add(ProblemKind kind, std::string text) {
  problems_->add({.kind = kind, .phase = start_.phase, .text = std::move(text)});
}

std::string Auditor::text(const Position& place) const {
  if (start_.is_stream()) return fmt::format("epoch {}, step {}", place.epoch, place.step);
  return fmt::format("epoch {}, sample {}, step {}", place.epoch, place.consumed, place.step);
}

}  // namespace rota::cli
