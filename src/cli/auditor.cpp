#include "cli/audit.hpp"
#include "cli/fates.hpp"
#include "cli/tracks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace rota::cli {
namespace {

using trace::Fact;
using trace::TraceBatch;
using trace::TraceSlot;

// Follows a run through its phases, in order, and ticks off each sample that is delivered. A phase that
// resumes from an earlier step first undoes the steps from there on. So all steps are checked alike, whether
// they count in the end or were rolled back. *One thread.*
class Auditor {
 public:
  Auditor(const trace::Phases& phases, const trace::TraceStart& run, const AuditOptions& options)
      : options_(options), start_(run) {
    for (const auto& [number, phase] : phases) later_.insert(phase.start.from.step);
    if (run.is_stream()) sets_ = {{.samples = options.samples.empty() ? -1 : options.samples.front()}};
    std::int64_t samples = 0;
    for (const std::int64_t size : run.samples) {
      sets_.push_back({.first_id = samples, .samples = size});
      samples += size;
    }
    samples_ = samples;
    digests_[0].resize(index(samples));  // fails at once where there is not so much memory
  }

  void audit_phase(const trace::Phase& phase, bool may_run) {
    start_ = phase.start;
    report_.phases.push_back({.start = start_});
    owners_.clear();
    short_.reset();
    end_.reset();
    const std::int64_t lacking = start_.world.size - std::ssize(phase.files);
    lacks_files_ = lacks_files_ || lacking > 0;
    later_.erase(later_.find(start_.from.step));
    go_back_to(start_.from.step);
    step_ = {.start = start_.from};
    expect_at(start_.from.step < phase.limit);
    fates_.begin(phase);
    trace::PhaseSteps steps(phase);
    for (;;) {
      const bool has_step = steps.next(step_);
      for (const auto& [rank, damage] : step_.damage) report(Kind::format, rank, damage);
      const bool is_written = lacking == 0 && std::ranges::none_of(step_.absent, &trace::Absence::has_ended);
      const bool is_last = !has_step || (may_run && !is_written);
      if (!is_last) audit_step(step_.start.step < phase.limit);
      hear();
      if (!has_step) check_ends(steps.ends());
      if (is_last) break;
    }
    fates_.end(end_.has_value());
    // A phase killed at once, before it had a batch, need not have all its files.
    if (may_run || (start_.from.step >= phase.limit && report_.phases.back().rolled_back == 0)) return;
    int rank = 0;
    while (phase.files.contains(rank)) ++rank;
    if (lacking > 0) report(Kind::files, rank, "its trace file is missing", 0, lacking);
  }

  AuditReport finish() {
    if (end_ && follows(*end_)) move_to(at_, *end_, true);
    if (at_.consumed > 0) move_to(at_, start_.settled(at_), true);
    step_ = {.start = at_};
    if (is_stream() ? tracks_[{-1, at_.epoch}].count > 0 : at_.consumed > 0) {
      expect(!options_.complete && !options_.epochs, Kind::missing, -1, "the run stops within an epoch");
    } else {
      const std::int64_t epochs = start_.slots_at({}) > 0 ? options_.epochs.value_or(at_.epoch) : at_.epoch;
      expect(at_.epoch == epochs, Kind::missing, -1, "the run has {} complete epochs, not {}", at_.epoch,
             epochs);
    }
    for (const Dataset& set : sets_) {
      const std::int64_t rest = tracks_[{&set - sets_.data(), set.highest}].count;
      const bool is_over = rest == set.samples;
      if (is_mixture()) report_.datasets.push_back({set.samples, set.highest + is_over, is_over ? 0 : rest});
    }
    fates_.finish(report_);
    expect(report_.open.empty() || !(options_.complete || options_.epochs), Kind::missing, -1,
           "{} samples are open: handed out, and neither settled nor dropped", report_.open.size());
    close_shards();
    for (const PhaseReport& phase : report_.phases) report_.samples += phase.samples;
    report_.end = at_;
    return std::move(report_);
  }

 private:
  using Kind = ProblemKind;

  // ---- where the run is ----

  // Steps that count are never taken back. Before others, what a later phase resumes from is kept.
  void expect_at(bool counts) {
    expect(follows(step_.start), Kind::gap, -1, "begins here, but the batches before lead to {}", text(at_));
    for (auto resume = later_.begin(); !counts && resume != later_.end() && *resume <= at_.step; ++resume)
      kept_.try_emplace(*resume, at_, tracks_);
    move_to(at_, step_.start, counts);
  }

  void go_back_to(std::int64_t step) {
    rolled_back_to_ = std::max(rolled_back_to_, at_.step);
    if (const auto kept = kept_.find(step); kept != kept_.end())
      std::tie(at_, tracks_) = std::move(kept->second);
    kept_.erase(kept_.lower_bound(step), kept_.end());
    rolled_back_.insert(rolled_back_.end(), taken_.begin(), taken_.end());
    taken_.clear();
    std::ranges::sort(rolled_back_);
  }

  [[nodiscard]] Position after_step() const {
    const std::int64_t samples = is_stream() ? 0 : step_.n - (is_mixture() ? step_.slots(SlotKind::pad) : 0);
    return {step_.start.epoch, step_.start.consumed + samples, step_.start.step + 1};
  }

  void move_to(const Position from, const Position to, bool counts) {
    if (to.epoch != from.epoch) owners_.clear();
    at_ = to;
    const bool drops = start_.tail == Tail::drop && to == start_.settled(from);
    for (Dataset& set : sets_) {
      const std::int64_t before = is_mixture() ? set.highest : to.epoch;
      if (counts) close_epochs(set, before, drops ? start_.epoch_samples() - from.consumed : 0);
    }
  }

  // Says what the epochs below `before` lack, of which the tail may drop `allowed` in the last one.
  void close_epochs(Dataset& set, std::int64_t before, std::int64_t allowed) {
    for (auto& epoch = set.open_from; epoch < before;) {
      const std::int64_t number = is_stream() ? -1 : &set - sets_.data();
      const auto track = tracks_.lower_bound({number, epoch});
      const bool has_track = track != tracks_.end() && track->first.first == number;
      const std::int64_t seen = has_track ? std::min(track->first.second, before) : before;
      const std::int64_t last = std::max(seen - 1, epoch);  // those that nothing was seen of at once
      const std::int64_t lacks =
          set.samples < 0 ? 0 : set.samples - (seen == epoch ? track->second.count : 0);
      std::vector<std::int64_t> ids;
      for (std::int64_t i = 0; lacks > 0 && seen == epoch && i < std::ssize(track->second.seen); ++i) {
        if (!track->second.seen[index(i)] && ids.size() < 5) ids.push_back(set.first_id + i);
      }
      if (seen == epoch) tracks_.erase(track);
      const bool is_dropped = lacks > 0 && lacks <= allowed && epoch == before - 1;
      if (is_dropped) report_.dropped += lacks;
      if (lacks != 0 && !is_dropped) {
        report(lacks > 0 ? Kind::missing : Kind::repeated, -1,
               fmt::format("{}epoch {}{} lacks {} of {} samples{}{}",
                           is_mixture() ? fmt::format("dataset {}, ", number) : "", epoch,
                           epoch == last ? "" : fmt::format(" to {}", last), lacks, set.samples,
                           ids.empty() ? "" : ": ", fmt::join(ids, ", ")),
               0, last - epoch + 1);
      }
      epoch = last + 1;
    }
  }

  // ---- steps ----

  void audit_step(bool counts) {
    if (!check_lockstep(counts)) return;
    expect_at(counts);
    if (counts && !is_stream() && at_.step >= rolled_back_to_) rolled_back_.clear();  // no more come again
    check_size();
    print_ = 0;
    filled_.assign(index(step_.slots()), false);
    for (const auto& slice : step_.slices) {
      for (const TraceSlot& slot : slice.batch->slots) deliver(slice, slot, counts);
    }
    const std::int64_t filled = std::ranges::count(filled_, true);
    expect(is_stream() || !is_whole() || (filled == step_.n && step_.slots() == step_.n), Kind::batch, -1,
           "{} samples fill {} of {} slots", step_.slots(), filled, step_.n);
    PhaseReport& phase = report_.phases.back();
    ++(counts ? phase.steps : phase.rolled_back);
    if (counts) {
      phase.samples += step_.slots() - step_.slots(SlotKind::pad);
      report_.padded += step_.slots(SlotKind::pad);
      report_.skipped += step_.slots(SlotKind::skipped);
      if (!is_stream()) report_.batches.emplace_back(step_.start, print_);
    }
    move_to(after_step(), start_.settled(after_step()), counts);
  }

  // Returns whether most ranks have the step. They are held against one that says what was to be expected.
  bool check_lockstep(bool counts) {
    const bool is_over = step_.start.step < at_.step;
    const auto lacking = std::ranges::count_if(step_.absent, [&](auto& a) { return counts || !a.has_ended; });
    const bool is_stray = is_over || lacking > std::ssize(step_.slices);
    const TraceBatch* first = step_.slices.front().batch;
    const auto score = [&, slots = step_.slots()](const TraceBatch& batch) {
      return std::pair(follows(batch.start), batch.n == slots);
    };
    for (const auto& [rank, batch] : step_.slices) {
      if (score(*batch) > score(*first)) first = batch;
      expect(!is_stray, Kind::lockstep, rank, "has a batch here {}", is_over ? "again" : "alone");
    }
    if (is_stray) return false;
    std::tie(step_.start, step_.n) = std::tie(first->start, first->n);
    for (const auto& [rank, batch] : step_.slices) {
      expect(batch->start == step_.start && batch->n == step_.n, Kind::lockstep, rank,
             "has another batch here, of {} slots at {}", batch->n, text(batch->start));
    }
    for (const auto& [rank, has_ended] : step_.absent) {  // a killed phase may end anywhere
      expect(has_ended && !counts, Kind::lockstep, rank, "{}, where other ranks go on",
             has_ended ? "ends before this batch" : "has no batch here");
    }
    return true;
  }

  void check_size() {
    if (is_stream())
      return expect(!is_whole() || step_.slots() > 0, Kind::batch, -1, "there is no sample in it");
    expect(!short_, Kind::batch, -1, "only the last may be short, not that at {}",
           text(short_.value_or(at_)));
    const std::int64_t full = start_.slots_at(step_.start);
    const bool is_carried = start_.tail == Tail::carry && start_.settled(after_step()).consumed == 0;
    const bool may_be_short =
        is_mixture() ? start_.tail == Tail::partial || start_.tail == Tail::carry : is_carried;
    const bool is_short = may_be_short && 0 < step_.n && step_.n < full;
    expect(is_short || (full > 0 && step_.n == full), Kind::batch, -1, "{} slots, not {}", step_.n, full);
    short_.reset();
    if (is_short || (is_mixture() && step_.slots(SlotKind::pad) > 0)) short_ = step_.start;
    for (const auto& [rank, batch] : step_.slices) {
      expect(is_share(start_, rank, step_.n, batch->slots), Kind::batch, rank,
             "{} slots, not its share of {}", batch->slots.size(), step_.n);
    }
  }

  void check_ends(const std::map<int, Position>& ends) {
    step_ = {.start = at_};
    const auto right = std::ranges::find_if(ends, [&](const auto& end) { return follows(end.second); });
    const Position end = right == ends.end() ? at_ : right->second;
    for (const auto& [rank, at] : ends)
      expect(at == end, Kind::lockstep, rank, "ended at {}, not at {}", text(at), text(end));
    if (std::ssize(ends) == start_.world.size) end_ = end;
  }

  // ---- samples ----

  void deliver(const trace::Slice& slice, const TraceSlot& slot, bool counts) {
    if (slot.slot < std::ssize(filled_)) filled_[index(slot.slot)] = true;
    const std::int64_t limit = is_stream() ? start_.shards : samples_;
    if ((is_stream() ? slot.set : slot.id) >= limit) {
      return report(
          Kind::batch, slice.rank,
          fmt::format("{}; there are {} {}", name(slot), limit, is_stream() ? "shards" : "samples"));
    }
    const SetEpoch of{set_of(start_, slot), epoch_of(start_, step_.start, slot)};
    is_stream() ? take_entry(slice.rank, slot, of) : take_sample(slice.rank, slot, of, counts);
    print_ += trace::hash_of(slot);
    if (counts && rolled_back_.empty()) return;
    const Fact order = trace::order_fact(start_, *slice.batch, slot);
    if (!counts) taken_.push_back(order);
    bool is_same = true;  // as whenever it was rolled back
    auto before = std::ranges::lower_bound(rolled_back_, order.key, {}, &Fact::key);
    for (; before != rolled_back_.end() && before->key == order.key; ++before) is_same &= *before == order;
    if (!is_same) report(Kind::content, slice.rank, name(slot) + " is not the one rolled back", order.key);
  }

  // What records say of samples that were handed out.
  void hear() {
    for (const auto& [rank, fate] : step_.fates) {
      for (const TraceSlot& slot : fate.slots)
        if (slot.id < samples_ && !start_.changes_by_epoch) check_bytes(rank, slot, slot.epoch);
      fates_.hear(rank, fate);
    }
  }

  void check_bytes(int rank, const TraceSlot& slot, std::int64_t epoch, std::uint64_t suspect = 0) {
    if (!slot.has_bytes()) return;
    std::vector<std::uint64_t>& digests = digests_[start_.changes_by_epoch ? epoch : 0];
    digests.resize(index(samples_));
    std::uint64_t& known = digests[index(slot.id)];  // inverted, so that 0 is unknown
    if (known == 0) known = ~slot.digest;
    if (known != ~slot.digest)
      report(Kind::content, rank, name(slot) + " has other bytes elsewhere", suspect);
  }

  // What a shard gives comes in order, so its next sample has the next position. Ranks own whole shards, for
  // as long as the epoch and the phase last, unless they are dispatched to by sample.
  void take_entry(int rank, const TraceSlot& slot, const SetEpoch& of) {
    Track& shard = tracks_[of];
    const bool is_late = slot.slot < shard.next;
    const int owner = owners_.try_emplace(slot.set, rank).first->second;
    const bool may_lack = lacks_files_ || !is_whole();  // of what other ranks have of the shard
    if (slot.slot != shard.next && (is_late || !may_lack)) {
      report(is_late ? Kind::repeated : Kind::missing, rank,
             fmt::format("{} is number {} of its shard, not {}", name(slot), slot.slot, shard.next));
    }
    if (owner != rank && start_.split != Split::by_sample)
      report(Kind::batch, rank, fmt::format("has {}, of a shard that rank {} owns", name(slot), owner));
    shard.samples.push_back(trace::bytes_fact(start_, slot));
    shard.next = slot.slot + 1;
    ++tracks_[{-1, of.second}].count;  // of all shards
  }

  void take_sample(int rank, const TraceSlot& slot, const SetEpoch& of, bool counts) {
    const auto [set, epoch] = of;
    const bool is_pad = slot.kind == SlotKind::pad;
    const bool may_be_pad =
        start_.tail == Tail::pad &&
        (is_mixture() ? is_pad : step_.start.consumed + slot.slot >= start_.epoch_samples());
    if (slot.set != set || (!is_pad && slot.epoch != epoch) || is_pad != may_be_pad) {
      report(Kind::batch, rank,
             fmt::format("{} has mask {}, dataset {}, epoch {} in slot {}", name(slot),
                         static_cast<int>(slot.kind), slot.set, slot.epoch, slot.slot));
    }
    const std::uint64_t key = trace::bytes_fact(start_, slot).key;
    check_bytes(rank, slot, epoch, key);
    Dataset& dataset = sets_[index(set)];
    const bool is_over = epoch < dataset.open_from;
    if (is_over && is_mixture()) report(Kind::gap, rank, name(slot) + " is of an epoch that was over");
    if (is_over || is_pad) return;
    if (counts) dataset.highest = std::max(dataset.highest, epoch);
    Track& track = tracks_[of];
    if (track.seen.empty()) track.seen.resize(index(dataset.samples));
    auto seen = track.seen[index(slot.id - dataset.first_id)];
    if (seen) report(Kind::repeated, rank, fmt::format("{} twice in epoch {}", name(slot), epoch), key);
    if (!seen) fates_.hand_out(slot);
    track.count += seen ? 0 : 1;
    seen = true;
  }

  // Prints the shards of a stream, and finds samples that came twice at different positions.
  void close_shards() {
    for (auto& [of, shard] : tracks_) {
      auto& samples = shard.samples;
      if (samples.empty()) continue;
      report_.batches.emplace_back(Position{.epoch = of.second, .consumed = of.first},
                                   XXH3_64bits(samples.data(), samples.size() * sizeof(Fact)));
      std::ranges::sort(samples);
      const auto twin = std::ranges::adjacent_find(samples, {}, &Fact::key);
      if (twin == samples.end()) continue;
      report(Kind::repeated, -1, fmt::format("a sample of shard {} twice in epoch {}", of.first, of.second),
             twin->key);
    }
  }

  // ---- words ----

  static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] bool is_stream() const noexcept { return start_.is_stream(); }
  [[nodiscard]] bool is_mixture() const noexcept { return sets_.size() > 1; }
  [[nodiscard]] bool is_whole() const noexcept { return std::ssize(step_.slices) == start_.world.size; }
  [[nodiscard]] std::string text(const Position& at) const { return text_of(at, is_stream()); }
  [[nodiscard]] bool follows(const Position& start) const { return start_.follows(start, at_); }
  [[nodiscard]] std::string name(const TraceSlot& slot) const { return name_of(start_, slot); }

  template <typename... Args>
  void expect(bool holds, Kind kind, int rank, fmt::format_string<Args...> text, Args&&... args) {
    if (!holds) report(kind, rank, fmt::format(text, std::forward<Args>(args)...));
  }

  void report(Kind kind, int rank, std::string what, std::uint64_t suspect = 0, std::int64_t count = 1) {
    const Position& at = step_.start;
    add(report_.problems, {kind, start_.phase, rank, at.step, text(at), std::move(what), count, suspect});
  }

  const AuditOptions& options_;
  AuditReport report_;
  trace::TraceStart start_;  // of the phase
  trace::Step step_;
  std::uint64_t print_ = 0;        // hash of its samples
  std::vector<bool> filled_;       // its slots
  Position at_;                    // where the next step is to start
  bool lacks_files_ = false;       // this phase or an earlier one
  std::optional<Position> end_;    // of the phase, where all ranks say so
  std::optional<Position> short_;  // a batch of the phase that only the last may be
  std::vector<Dataset> sets_;      // a stream is one
  Tracks tracks_;
  std::int64_t samples_ = 0;
  // By sample; of each epoch, where they change by that.
  std::map<std::int64_t, std::vector<std::uint64_t>> digests_;
  std::map<std::int64_t, int> owners_;                        // of the shards of this phase and epoch
  std::multiset<std::int64_t> later_;                         // steps that later phases resume from
  std::map<std::int64_t, std::pair<Position, Tracks>> kept_;  // before the steps that they take back
  std::vector<Fact> taken_;                                   // of steps that do not count
  std::vector<Fact> rolled_back_;                             // sorted
  std::int64_t rolled_back_to_ = 0;                           // the step behind them all
  Fates fates_{[this](const trace::TraceName& name) {
                 const auto set = name.id < samples_ ? set_of(start_, {.id = name.id}) : -1;
                 return set >= 0 && has(tracks_, sets_[index(set)], {set, name.epoch}, name.id);
               },
               [this](Kind kind, int rank, std::string what, std::int64_t count) {
                 report(kind, rank, std::move(what), 0, count);
               }};
};

}  // namespace

AuditReport audit_phases(const trace::Phases& phases, const trace::TraceStart& run,
                         const AuditOptions& options) {
  Auditor auditor(phases, run, options);
  for (const auto& [number, phase] : phases)
    auditor.audit_phase(phase, options.running && number == phases.rbegin()->first);
  return auditor.finish();
}

}  // namespace rota::cli
