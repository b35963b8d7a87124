#include "cli/stream_audit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "cli/audit_text.hpp"
#include "cli/text_table.hpp"
#include "cli/trace_reader.hpp"
#include "rota/error.hpp"

namespace rota::tracing {
namespace {

struct RankFile {
  StreamTraceFile file;
  StreamTraceBatch batch = {};
  bool has_batch = false;
};
using Phase = std::map<int, RankFile>;

bool same_phase(const StreamTraceStart& a, const StreamTraceStart& b) {
  return a.world.size == b.world.size && a.shards == b.shards && a.batch == b.batch && a.split == b.split &&
         a.resumed_from == b.resumed_from;
}

// Of the records that were read and not taken.
std::optional<std::int64_t> lowest_step(const Phase& phase) {
  std::optional<std::int64_t> lowest;
  for (const auto& [rank, file] : phase) {
    if (!file.has_batch) continue;
    lowest = std::min(lowest.value_or(file.batch.start.step), file.batch.start.step);
  }
  return lowest;
}

/// Follows a run through its phases, in order.
class Auditor {
 public:
  Auditor(const std::filesystem::path& dir, const StreamAuditOptions& options) : options_(options) {
    for (const auto& path : trace_files(dir)) open(path);
    if (phases_.empty()) {
      auto found = problems_.take();
      throw Error(ErrorCode::not_found,
                  fmt::format("audit {}: there is no trace of a stream in it{}", dir.string(),
                              found.empty() ? "" : "; " + to_string(found.front())));
    }
  }

  StreamAuditReport run();

 private:
  void open(const std::filesystem::path& path);
  void check_ranks(const Phase& phase, bool counts);
  void audit(Phase& phase, std::int64_t limit, bool is_last);
  void step(Phase& phase, std::int64_t number, std::int64_t limit, bool is_last, StreamPhaseReport& report);
  [[nodiscard]] bool is_whole(Phase& phase, std::int64_t number, bool is_last);
  void check_owner(const RankFile& file);
  void check_epoch(const StreamPosition& start, const StreamTraceStart& phase, std::int64_t samples);
  void advance(RankFile& rank);
  void check_end(const Phase& last);
  void check_samples(std::int64_t epoch);
  void add(ProblemKind kind, const StreamTraceStart& start, int rank, std::string text) {
    problems_.add({.kind = kind, .phase = start.phase, .rank = rank, .text = std::move(text)});
  }

  StreamAuditOptions options_;
  Problems problems_;
  std::map<std::int64_t, Phase> phases_;
  std::optional<StreamLedger> ledger_;
  std::map<std::int64_t, int> owners_;  // of the shards of the epoch and phase at hand
  StreamAuditReport report_;
};

void Auditor::open(const std::filesystem::path& path) {
  StreamTraceFile file(path);
  if (!file.start()) {
    if (!file.damage().empty()) problems_.add({.kind = ProblemKind::format, .text = file.damage()});
    return;
  }
  const StreamTraceStart start = *file.start();
  if (phases_[start.phase].try_emplace(start.world.rank, RankFile{.file = std::move(file)}).second) return;
  add(ProblemKind::files, start, start.world.rank, "two trace files: one is " + path.filename().string());
}

StreamAuditReport Auditor::run() {
  const StreamTraceStart first = *phases_.begin()->second.begin()->second.file.start();
  ledger_.emplace(first.shards, problems_);
  // Where the steps of each phase stop to count: the lowest from which a later phase resumed.
  std::map<std::int64_t, std::int64_t> limits;
  std::int64_t limit = kEndless;
  std::for_each(phases_.rbegin(), phases_.rend(), [&](auto& phase) {
    limits[phase.first] = limit;
    limit = std::min(limit, phase.second.begin()->second.file.start()->resumed_from.step);
  });
  for (auto& [number, phase] : phases_) audit(phase, limits[number], number == phases_.rbegin()->first);
  check_end(phases_.rbegin()->second);
  ledger_->close();
  report_.shards = ledger_->shards();
  for (const auto& [key, entries] : report_.shards) report_.samples += std::ssize(entries);
  report_.problems = problems_.take();
  return std::move(report_);
}

void Auditor::check_ranks(const Phase& phase, bool counts) {
  const StreamTraceStart& start = *phase.begin()->second.file.start();
  for (const auto& [rank, file] : phase) {
    if (same_phase(start, *file.file.start())) continue;
    add(ProblemKind::start, start, rank,
        "its world, shards, batch, split or start is not that of the other ranks");
  }
  if (start.shards != phases_.begin()->second.begin()->second.file.start()->shards) {
    add(ProblemKind::start, start, -1,
        fmt::format("it has {} shards, and the run began with others", start.shards));
  }
  if (start.resumed_from.step > report_.end.step) {
    add(ProblemKind::gap, start, -1,
        fmt::format("it resumed from step {}; the run had come to step {}", start.resumed_from.step,
                    report_.end.step));
  }
  const std::int64_t missing = start.world.size - std::ssize(phase);
  if (missing == 0 || !counts) return;  // a phase killed at once need not have all its files
  add(ProblemKind::files, start, -1,
      fmt::format("no trace file for {} of {} ranks", missing, start.world.size));
}

void Auditor::audit(Phase& phase, std::int64_t limit, bool is_last) {
  const StreamTraceStart& start = *phase.begin()->second.file.start();
  check_ranks(phase, start.resumed_from.step < limit && !is_last);
  report_.end = start.resumed_from;
  StreamPhaseReport report{.start = start};
  owners_.clear();
  for (auto& [rank, file] : phase) advance(file);
  std::int64_t expected = start.resumed_from.step;
  while (const auto number = lowest_step(phase)) {
    if (*number > expected && expected < limit) {
      add(ProblemKind::gap, start, -1,
          fmt::format("step {} follows, where step {} was to", *number, expected));
    }
    expected = *number + 1;
    step(phase, *number, limit, is_last, report);
  }
  report_.phases.push_back(report);
}

// Takes step `number`, the lowest that any rank has.
void Auditor::step(Phase& phase, std::int64_t number, std::int64_t limit, bool is_last,
                   StreamPhaseReport& report) {
  const bool counts = number < limit && is_whole(phase, number, is_last);
  const StreamTraceStart& start = *phase.begin()->second.file.start();
  std::optional<StreamPosition> at;
  std::int64_t samples = 0;
  for (auto& [rank, file] : phase) {
    if (!file.has_batch || file.batch.start.step != number) continue;
    if (at && *at != file.batch.start && counts) {
      add(ProblemKind::lockstep, start, rank,
          fmt::format("step {} is of epoch {} here, and of epoch {} elsewhere", number,
                      file.batch.start.epoch, at->epoch));
    }
    at = file.batch.start;
    samples += std::ssize(file.batch.ids);
    ledger_->add(start.phase, rank, file.batch, !counts);
  }
  if (counts) check_epoch(*at, start, samples);
  (counts ? report.steps : report.rolled_back) += 1;
  report.samples += counts ? samples : 0;
  for (auto& [rank, file] : phase) {
    if (!file.has_batch || file.batch.start.step != number) continue;
    if (counts) check_owner(file);
    advance(file);
  }
}

// Whether all ranks have step `number`.
bool Auditor::is_whole(Phase& phase, std::int64_t number, bool is_last) {
  const StreamTraceStart& start = *phase.begin()->second.file.start();
  const bool may_stop = is_last && std::ranges::none_of(phase, [](const auto& rank) {
                          return rank.second.file.end().has_value();
                        });
  if (may_stop && std::ssize(phase) < start.world.size) return false;
  for (auto& [rank, file] : phase) {
    if (file.has_batch && file.batch.start.step == number) continue;
    if (!file.has_batch && may_stop) return false;
    add(ProblemKind::lockstep, start, rank,
        file.has_batch
            ? fmt::format("it has step {} where the others have step {}", file.batch.start.step, number)
            : fmt::format("its trace ends before step {}, which others have", number));
  }
  return true;
}

void Auditor::check_epoch(const StreamPosition& start, const StreamTraceStart& phase, std::int64_t samples) {
  if (start.epoch != report_.end.epoch) {
    owners_.clear();
    if (start.epoch != report_.end.epoch + 1) {
      add(ProblemKind::gap, phase, -1,
          fmt::format("step {} is of epoch {}, and the one before was of epoch {}", start.step, start.epoch,
                      report_.end.epoch));
    }
  }
  if (samples == 0) add(ProblemKind::size, phase, -1, fmt::format("step {} has no sample", start.step));
  report_.end = {.epoch = start.epoch, .step = start.step + 1};
}

// Ranks own whole shards, for as long as the epoch and the phase last, unless they are dispatched to by
// sample.
void Auditor::check_owner(const RankFile& file) {
  if (file.file.start()->split == Split::by_sample) return;
  const int rank = file.file.start()->world.rank;
  for (const StreamId& id : file.batch.ids) {
    const auto [owner, is_new] = owners_.try_emplace(id.shard.value, rank);
    if (is_new || owner->second == rank) continue;
    add(ProblemKind::owner, *file.file.start(), rank,
        fmt::format("it has {}, of a shard that rank {} owns", rota::to_string(id), owner->second));
  }
}

void Auditor::advance(RankFile& rank) {
  for (;;) {
    const auto next = rank.file.next(rank.batch);
    rank.has_batch = next == StreamTraceFile::Next::batch;
    if (next != StreamTraceFile::Next::damaged) return;
    add(ProblemKind::format, *rank.file.start(), rank.file.start()->world.rank, rank.file.damage());
  }
}

void Auditor::check_end(const Phase& last) {
  const StreamTraceStart& start = *last.begin()->second.file.start();
  report_.has_ended = std::ssize(last) == start.world.size && std::ranges::all_of(last, [](const auto& rank) {
                        return rank.second.file.end().has_value();
                      });
  for (const auto& [rank, file] : last) {
    if (!report_.has_ended || file.file.end()->step == report_.end.step) continue;
    add(ProblemKind::lockstep, start, rank,
        fmt::format("it ended after step {}, and the last is step {}", file.file.end()->step,
                    report_.end.step));
  }
  if (report_.has_ended) report_.end.epoch = last.begin()->second.file.end()->epoch;
  if ((options_.complete || options_.epochs) && !report_.has_ended) {
    problems_.add({.kind = ProblemKind::unfinished, .text = "the run has not ended"});
  } else if (options_.epochs && report_.end.epoch != *options_.epochs) {
    problems_.add(
        {.kind = ProblemKind::unfinished,
         .text = fmt::format("it ended after {} epochs, not {}", report_.end.epoch, *options_.epochs)});
  }
  for (std::int64_t epoch = 0; epoch < report_.end.epoch; ++epoch) check_samples(epoch);
}

void Auditor::check_samples(std::int64_t epoch) {
  const std::int64_t samples = ledger_->samples(epoch);
  if (!options_.samples || samples == *options_.samples) return;
  problems_.add({.kind = samples < *options_.samples ? ProblemKind::missing : ProblemKind::repeated,
                 .text = fmt::format("epoch {} has {} samples, not {}", epoch, samples, *options_.samples)});
}

}  // namespace

StreamAuditReport audit_streams(const std::filesystem::path& dir, const StreamAuditOptions& options) {
  return Auditor(dir, options).run();
}

void compare(StreamAuditReport& report, const StreamAuditReport& other,
             const std::filesystem::path& other_dir) {
  const auto [mine, yours] = std::ranges::mismatch(report.shards, other.shards);
  if (mine == report.shards.end() && yours == other.shards.end()) return;
  const bool is_mine =
      yours == other.shards.end() || (mine != report.shards.end() && mine->first <= yours->first);
  const auto [epoch, shard] = is_mine ? mine->first : yours->first;
  report.problems.push_back(
      {.kind = ProblemKind::difference,
       .text = fmt::format("epoch {}, shard {}: other samples than in {}, or in another "
                           "order, or with other bytes",
                           epoch, shard, other_dir.string())});
}

std::string stream_audit_text(const StreamAuditReport& report, const std::filesystem::path& dir) {
  std::string text = fmt::format("{}: {} complete epochs, {} steps, {} samples delivered{}\n\n", dir.string(),
                                 grouped(report.end.epoch), grouped(report.end.step), grouped(report.samples),
                                 report.has_ended ? "; the run has ended" : "");
  TextTable table({"phase", "ranks x workers", "shards", "batch", "from epoch", "step", "steps",
                   "rolled back", "samples"});
  for (const StreamPhaseReport& phase : report.phases) {
    const StreamTraceStart& start = phase.start;
    table.add({std::to_string(start.phase), fmt::format("{} x {}", start.world.size, start.workers),
               grouped(start.shards), grouped(start.batch), grouped(start.resumed_from.epoch),
               grouped(start.resumed_from.step), grouped(phase.steps),
               phase.rolled_back == 0 ? "-" : grouped(phase.rolled_back), grouped(phase.samples)});
  }
  text += table.text() + "\n";
  if (report.passed()) {
    return text + "passed: each sample of a stream exactly once per epoch and in order, ranks in lockstep\n";
  }
  return text + fmt::format("FAILED: {} problems\n", grouped(std::ssize(report.problems))) +
         problem_text(report.problems);
}

}  // namespace rota::tracing
