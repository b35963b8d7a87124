// An audit as JSON: what it found, what of each epoch each phase delivered, and what ranks waited for.

#include <algorithm>
#include <array>
#include <map>
#include <regex>
#include <string>
#include <tuple>
#include <vector>

#include "cli/audit.hpp"
#include "core/json.hpp"

namespace rota::cli {
namespace {

using internal::Json;
using trace::TraceStart;

// Samples [begin, end) of an epoch, by a phase; of a stream, steps of the run.
struct Part {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t phase = 0;
  bool counts = false;  // it was not rolled back
};
using Epochs = std::map<std::int64_t, std::vector<Part>>;

// Samples of each epoch that are open or dropped, by where the run has them.
using Ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;
struct Fated {
  Ranges open;
  Ranges dropped;
};

void add_place(Ranges& ranges, std::int64_t at) {
  if (ranges.empty() || ranges.back().second != at) ranges.emplace_back(at, at);
  ranges.back().second = at + 1;
}

/// What was trained of each dataset, by parts of the run of equally many steps: twice as many, where there
/// would be more than kMostParts.
class Strip {
 public:
  void add(const AuditReport& report, const trace::Phase& phase, const trace::Step& step) {
    if (step.start.step >= phase.limit || phase.start.is_stream()) return;
    steps_ = std::max(steps_, step.start.step + 1);
    datasets_.resize(std::max(datasets_.size(), phase.start.samples.size()));
    for (; (steps_ - 1) / every_ >= kMostParts; every_ *= 2) {
      for (Dataset& of : datasets_) {
        for (std::size_t i = 0; i < of.trained.size(); ++i)
          of.trained[i] = 2 * i < of.trained.size() ? of.trained[2 * i] + of.trained[2 * i + 1] : 0;
      }
    }
    bool is_left_out = false;
    for (const auto& [rank, batch] : step.slices) {
      for (const trace::TraceSlot& slot : batch->slots) {
        Dataset& of = datasets_[static_cast<std::size_t>(set_of(phase.start, slot))];
        const trace::TraceName name{slot.epoch, slot.id};
        const bool counts = !report.open.contains(name) && !report.dropped_by_hand.contains(name);
        of.trained[static_cast<std::size_t>(step.start.step / every_)] +=
            slot.kind == SlotKind::sample && counts ? 1 : 0;
        of.skipped += slot.kind == SlotKind::skipped ? 1 : 0;
        is_left_out |= slot.is_left_out;
      }
    }
    if (is_left_out) add_place(left_out_, step.start.step);
  }

  [[nodiscard]] Json json(const TraceStart& latest) const {
    Json datasets = Json::array();
    const auto end = (steps_ + every_ - 1) / every_;
    for (std::size_t d = 0; d < datasets_.size(); ++d) {
      const auto& [trained, skipped] = datasets_[d];
      Json of{{"trained", std::vector(trained.begin(), trained.begin() + end)}, {"skipped", skipped}};
      if (d < latest.samples.size()) of["size"] = latest.samples[d];
      if (d < latest.names.size()) of["name"] = latest.names[d];
      if (d < latest.tokens.size()) of["tokens_per_sample"] = latest.tokens[d];
      datasets.push_back(std::move(of));
    }
    return {{"steps", steps_}, {"every", every_}, {"datasets", datasets}, {"left_out", left_out_}};
  }

 private:
  static constexpr int kMostParts = 256;
  struct Dataset {
    std::array<std::int64_t, kMostParts> trained = {};
    std::int64_t skipped = 0;
  };
  std::int64_t steps_ = 0;  // up to the last one that counts
  std::int64_t every_ = 1;  // of a part
  std::vector<Dataset> datasets_;
  Ranges left_out_;
};

struct Found {
  Epochs epochs;
  std::map<std::int64_t, Fated> fates;
  Strip strip;
};
constexpr int kMostMissing = 100;  // epochs without a part: a damaged trace may pass over any number

// What goes beyond an epoch is padding, unless the tail carries it into the next one.
void add_step(Epochs& epochs, const trace::Phase& phase, const trace::Step& step) {
  const TraceStart& start = phase.start;
  const bool counts = step.start.step < phase.limit;
  auto [epoch, begin, number] = start.is_stream() ? Position{0, step.start.step} : step.start;
  for (std::int64_t left = start.is_stream() ? 1 : step.slots(); left > 0 && begin < start.epoch_samples();) {
    const std::int64_t end = std::min(begin + left, start.epoch_samples());
    auto& parts = epochs[epoch++];
    const Part before = parts.empty() ? Part{.phase = -1} : parts.back();
    if (std::tie(before.end, before.phase, before.counts) == std::tie(begin, start.phase, counts)) {
      parts.back().end = end;
    } else {
      parts.push_back({begin, end, start.phase, counts});
    }
    left = start.tail == Tail::carry ? left - (end - begin) : 0;
    begin = 0;
  }
}

void add_fates(std::map<std::int64_t, Fated>& fates, const AuditReport& report, const trace::Phase& phase,
               const trace::Step& step) {
  if (step.start.step >= phase.limit || (report.open.empty() && report.dropped_by_hand.empty())) return;
  for (const auto& [rank, batch] : step.slices) {
    for (const trace::TraceSlot& slot : batch->slots) {
      if (slot.kind == SlotKind::pad) continue;
      const trace::TraceName name{slot.epoch, slot.id};
      const std::int64_t at = step.start.consumed + slot.slot;
      const std::int64_t size = phase.start.epoch_samples();
      Fated& of = fates[step.start.epoch + at / size];
      if (report.open.contains(name)) add_place(of.open, at % size);
      if (report.dropped_by_hand.contains(name)) add_place(of.dropped, at % size);
    }
  }
}

bool is_kept(const trace::Phase& phase) { return phase.start.from.step < phase.limit; }

// The last epoch that began, unless that was rolled back; those before it are to be complete.
std::int64_t last_epoch(const Epochs& epochs, const trace::Phases& phases) {
  std::int64_t last = 0;
  for (const auto& [epoch, parts] : epochs)
    if (std::ranges::any_of(parts, &Part::counts)) last = epoch;
  for (const auto& [number, phase] : phases) {
    const bool has_epochs = phase.start.samples.size() == 1;
    if (has_epochs && is_kept(phase)) last = std::max(last, phase.start.from.epoch);
  }
  return last;
}

// Its parts, and what of [0, size) is missing, or there twice.
Json epoch_json(std::int64_t epoch, std::vector<Part> parts, bool is_complete, const trace::Phases& phases) {
  const std::int64_t one = phases.begin()->second.start.epoch_samples();
  const std::int64_t size = one < trace::kMaxTraced ? one : std::ranges::max(parts, {}, &Part::end).end;
  Json json{{"epoch", epoch}, {"size", size}, {"parts", Json::array()}, {"faults", Json::array()}};
  const auto fault = [&](const char* kind, std::int64_t begin, std::int64_t end) {
    if (begin < end) json["faults"].push_back({{"kind", kind}, {"begin", begin}, {"end", end}});
  };
  std::ranges::stable_sort(parts, {}, &Part::begin);
  std::int64_t at = 0;
  for (const auto& [begin, end, phase, counts] : parts) {
    json["parts"].push_back({{"phase", phase}, {"begin", begin}, {"end", end}, {"counts", counts}});
    if (!counts) continue;
    fault("missing", at, begin);
    fault("twice", begin, std::min(at, end));
    at = std::max(at, end);
  }
  const TraceStart* last = &phases.begin()->second.start;  // the last one that began in the epoch, or before
  for (const auto& [number, phase] : phases)
    if (is_kept(phase) && phase.start.from.epoch <= epoch) last = &phase.start;
  if (is_complete && last->slots_at({epoch, at}) > 0) fault("missing", at, size);
  return json;
}

// ---- times ----

// Adds to the columns of a rank, which have an entry for each of its batches.
void add_batch(Json& rank, const trace::TraceBatch& batch, const std::regex& in_file) {
  const auto& [wait, read, transform, slowest, seconds] = batch.times;
  rank["at"].push_back(batch.at);
  rank["wait"].push_back(wait);
  rank["read"].push_back(read);
  rank["transform"].push_back(transform);
  rank["samples"].push_back(batch.slots.size());
  if (slowest.empty()) return;
  std::smatch place;
  const bool is_sample = std::regex_search(slowest, place, in_file);
  rank["slow"][is_sample ? place.prefix().str() : slowest].push_back(seconds);
}

/// What the costliest rank of a step has, of the mean of all ranks: with equal slices, and in balance.
class Evenness {
 public:
  void add(const trace::Step& step, int ranks) {
    const BatchCosts costs = step.slices.empty() ? BatchCosts() : step.slices.front().batch->costs;
    if (costs.global <= 0) return;
    before_ += costs.most_by_sample / costs.global * ranks;
    after_ += costs.most / costs.global * ranks;
    ++steps_;
  }
  void put_into(Json& phase) const {
    if (steps_ > 0)
      phase["costliest_rank"] = {{"by_sample", before_ / steps_}, {"balanced", after_ / steps_}};
  }

 private:
  double before_ = 0;
  double after_ = 0;
  double steps_ = 0;
};

Json phase_json(const trace::Phase& phase, const AuditReport& report, Found& found) {
  std::map<int, Json> ranks;
  for (const auto& [rank, path] : phase.files) {
    ranks[rank] = {{"rank", rank}, {"slow", Json::object()}};
    for (const char* column : {"at", "wait", "read", "transform", "samples"})
      ranks[rank][column] = Json::array();
  }
  // What was slow is a file, or a sample of one: "a.txt, record 7 at byte 90", "a.h5, row 3 to a.h5, row 5".
  const std::regex in_file(R"(, (row \d{1,19}|record \d{1,19} at byte \d{1,19})($|, "| to ))");
  trace::PhaseSteps steps(phase);
  Evenness evenness;
  for (trace::Step step; steps.next(step);) {
    evenness.add(step, phase.start.world.size);
    for (const auto& [rank, batch] : step.slices) add_batch(ranks[rank], *batch, in_file);
    if (std::ssize(step.slices) == phase.start.world.size) {
      add_step(found.epochs, phase, step);
      found.strip.add(report, phase, step);
    }
    add_fates(found.fates, report, phase, step);
  }
  Json json{{"phase", phase.start.phase}, {"world", phase.start.world.size}, {"step", phase.start.from.step}};
  json["batches"].push_back({phase.start.from.step, phase.start.batch});
  for (const auto& [step, batch] : phase.start.batches) json["batches"].push_back({step, batch});
  if (!phase.start.plan.empty()) json["plan"] = phase.start.plan;
  evenness.put_into(json);
  for (auto& [number, rank] : ranks) json["ranks"].push_back(std::move(rank));
  return json;
}

Json judgement(const AuditReport& report) {
  Json problems = Json::array();
  for (const Problem& problem : report.problems) {
    const auto& [kind, phase, rank, step, where, text, count, suspect] = problem;
    problems.push_back({{"kind", to_string(kind)},
                        {"phase", phase},
                        {"rank", rank},
                        {"step", step},
                        {"count", count},
                        {"text", to_string(problem)}});
  }
  return {{"passed", report.passed()}, {"verdict", verdict(report)}, {"problems", problems}};
}

}  // namespace

std::string audit_json(const AuditReport& report, const AuditReport& so_far) {
  Json json = judgement(report);
  json["so_far"] = judgement(so_far);
  const TraceStart& latest = report.traces.rbegin()->second.start;  // which has all datasets
  json["samples"] = latest.samples;
  json["epochs"] = Json::array();
  Found found;
  auto& [epochs, fates, strip] = found;
  for (const auto& [number, phase] : report.traces)
    json["phases"].push_back(phase_json(phase, report, found));
  if (!latest.is_stream()) json["strip"] = strip.json(latest);
  const std::int64_t last = last_epoch(epochs, report.traces);
  for (std::int64_t epoch = 0, missing = 0; epoch < last && missing < kMostMissing; ++epoch)
    missing += epochs.try_emplace(epoch).second ? 1 : 0;
  for (const auto& [epoch, parts] : epochs)
    json["epochs"].push_back(epoch_json(epoch, parts, epoch < last, report.traces));
  for (Json& epoch : json["epochs"]) {
    if (!report.is_by_hand) break;
    const Fated& of = fates[epoch["epoch"]];
    epoch["open"] = of.open;
    epoch["dropped"] = of.dropped;
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace rota::cli
