// The audit of samples with ids.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cli/auditor.hpp"
#include "cli/coverage.hpp"

namespace rota::cli {
namespace {

using trace::TraceBatch;

constexpr std::int64_t kNoEnd = std::int64_t{1} << 61;

template <typename T>
std::uint64_t hash(const std::vector<T>& values) {
  return XXH3_64bits(values.data(), values.size() * sizeof(T));
}

std::int64_t padding(const Step& step) {
  std::int64_t sum = 0;
  for (const Slice& slice : step.slices) sum += std::ranges::count(slice.batch->kinds, SlotKind::pad);
  return sum;
}

std::string describe(const Missing& missing, std::int64_t samples, std::int64_t dropped) {
  const auto epochs = missing.first_epoch == missing.last_epoch
                          ? fmt::format("epoch {}", missing.first_epoch)
                          : fmt::format("epochs {} to {}", missing.first_epoch, missing.last_epoch);
  std::string text = fmt::format("{} lacks {} of {} samples", epochs, missing.count, samples);
  if (dropped > 0) text += fmt::format(", where the tail may drop {}", dropped);
  if (missing.first_ids.empty()) return text;
  const bool all = missing.count == std::ssize(missing.first_ids);
  return fmt::format("{}: {}{}", text, fmt::join(missing.first_ids, ", "), all ? "" : ", ...");
}

// A global batch in canonical order.
struct Canonical {
  std::vector<std::int64_t> ids;
  std::vector<SlotKind> kinds;
  std::vector<std::uint64_t> digests;
};

// One rank's part of a global batch that was rolled back.
struct RolledBack {
  std::int64_t phase = 0;
  int rank = 0;
  std::vector<std::int64_t> slots;
  std::vector<std::int64_t> ids;

  [[nodiscard]] bool is_in(const Canonical& batch) const {
    return std::ranges::equal(slots, ids, [&](std::int64_t slot, std::int64_t id) {
      return slot < std::ssize(batch.ids) && batch.ids[static_cast<std::size_t>(slot)] == id;
    });
  }
};

// A dataset, and what was seen of it.
struct Dataset {
  std::int64_t first_id = 0;
  std::int64_t samples = 0;
  Coverage coverage;
  std::int64_t epoch = 0;  // of a mixture: the highest seen
};

// Ticks off the samples of one dataset, or of each of a mixture: there, an epoch is a dataset's own, and the
// run's place counts samples of the run. Of each sample it remembers one digest, 8 bytes and a bit.
class SampleAuditor : public Auditor {
 public:
  SampleAuditor(const AuditOptions& options, const trace::TraceStart& first, Problems& problems)
      : Auditor(options, problems) {
    std::int64_t first_id = 0;
    for (const std::int64_t samples : first.samples) {
      datasets_.push_back({.first_id = first_id, .samples = samples, .coverage = Coverage(samples)});
      first_id += samples;
    }
    samples_ = is_mixture() ? kNoEnd : first_id;
    digests_.resize(static_cast<std::size_t>(first_id));
    has_digest_.resize(static_cast<std::size_t>(first_id));
  }

 protected:
  [[nodiscard]] bool follows(const Position& start) const override { return start == at_ || drops_to(start); }
  [[nodiscard]] Position after(const Step& step) const override;
  void move_to(const Position& to, bool is_gap) override;
  void check(const Step& step, bool counts, bool moves) override;
  void close() override { return is_mixture() ? close_mixture() : close_run(); }

 private:
  // Epoch, samples consumed, slots, and the tail where it matters.
  using BatchKey = std::tuple<std::int64_t, std::int64_t, std::int64_t, int>;

  void check_size(const Step& step);
  void check_share(const Step& step, const Slice& slice);
  void check_slot(const Step& step, const Slice& slice, std::size_t i, bool counts);
  void check_padding(const Step& step, const Slice& slice, std::size_t i, bool counts);
  void check_content(const Step& step, const Slice& slice, std::size_t i);
  void check_rerun(const Step& step, const Canonical& batch);
  Canonical assemble(const Step& step);
  void close_epochs(Dataset& dataset, std::int64_t before, std::int64_t dropped);
  void close_mixture();
  void close_run();

  [[nodiscard]] bool is_mixture() const noexcept { return datasets_.size() > 1; }
  [[nodiscard]] bool drops_to(const Position& place) const {
    return start_.tail == Tail::drop && place == Position{at_.epoch + 1, 0, at_.step} &&
           left() < start_.batch;
  }
  // Samples of the epoch at hand that are still to come.
  [[nodiscard]] std::int64_t left() const noexcept { return samples_ - at_.consumed; }
  [[nodiscard]] std::int64_t epoch_of(const Step& step, const TraceBatch& batch, std::size_t i) const;
  [[nodiscard]] Dataset* dataset_of(std::int64_t id);
  [[nodiscard]] BatchKey key_of(const Step& step) const {
    const bool straddles = step.start.consumed + step.n > samples_;
    return {step.start.epoch, step.start.consumed, step.n, straddles ? static_cast<int>(start_.tail) : -1};
  }

  std::vector<Dataset> datasets_;
  std::int64_t samples_ = 0;  // of an epoch; of a mixture, which has none, more than will ever be
  std::vector<std::uint64_t> digests_;
  std::vector<bool> has_digest_;
  std::int64_t dropped_ = 0;  // that Tail::drop may leave out behind the step at hand
  std::optional<std::pair<std::int64_t, Position>> short_batch_;  // its phase; only the last may be short
  std::map<BatchKey, std::vector<RolledBack>> rolled_back_;
};

Position SampleAuditor::after(const Step& step) const {
  const auto [epoch, consumed, number] = step.start;
  const std::int64_t end = consumed + step.n - (is_mixture() ? padding(step) : 0);
  if (samples_ <= 0) return {.epoch = epoch, .consumed = consumed, .step = number + 1};
  if (start_.tail == Tail::carry) return {epoch + end / samples_, end % samples_, number + 1};
  const bool is_last = end >= samples_ || (start_.tail == Tail::drop && samples_ - end < start_.batch);
  return is_last ? Position{epoch + 1, 0, number + 1} : Position{epoch, end, number + 1};
}

void SampleAuditor::move_to(const Position& to, bool is_gap) {
  const std::int64_t dropped = is_gap ? 0 : drops_to(to) ? left() : dropped_;
  dropped_ = 0;
  at_ = to;
  if (!is_mixture()) close_epochs(datasets_.front(), to.epoch, dropped);
}

void SampleAuditor::check(const Step& step, bool counts, bool moves) {
  check_size(step);
  for (const Slice& slice : step.slices) {
    check_share(step, slice);
    for (std::size_t i = 0; i < slice.batch->size(); ++i) check_slot(step, slice, i, counts);
    if (counts || slice.batch->size() == 0) continue;
    rolled_back_[key_of(step)].push_back(
        {.phase = start_.phase, .rank = slice.rank, .slots = slice.batch->slots, .ids = slice.batch->ids});
  }
  for (const Slice& slice : step.slices) {  // which may repeat what another rank has read in this step
    for (std::size_t i = 0; i < slice.batch->size(); ++i) check_padding(step, slice, i, counts);
  }
  if (!moves) return;
  const Canonical batch = assemble(step);
  check_rerun(step, batch);
  report_.batches.push_back({step.start, step.n, hash(batch.ids), hash(batch.kinds), hash(batch.digests)});
  const bool drops = start_.tail == Tail::drop && after(step).consumed == 0;
  dropped_ = drops ? std::max<std::int64_t>(samples_ - step.start.consumed - step.n, 0) : 0;
  if (!is_mixture()) return;
  for (Dataset& dataset : datasets_) close_epochs(dataset, dataset.epoch, 0);
}

void SampleAuditor::check_size(const Step& step) {
  if (short_batch_ && short_batch_->first == start_.phase) {
    add(ProblemKind::size, step, -1,
        fmt::format("a batch before this one, at {}, is short; {} only the last may be",
                    text(short_batch_->second), is_mixture() ? "of a mixture" : "under carry"));
  }
  short_batch_.reset();
  const std::int64_t rest = samples_ - step.start.consumed;
  if (rest <= 0) {
    add(ProblemKind::range, step, -1, fmt::format("the dataset has {} samples", samples_));
    return;
  }
  std::int64_t expected = start_.batch;
  if (start_.tail == Tail::partial) expected = std::min(expected, rest);
  const bool may_be_short = is_mixture() ? start_.tail == Tail::partial || start_.tail == Tail::carry
                                         : start_.tail == Tail::carry && after(step).consumed == 0;
  if (may_be_short && step.n > 0 && step.n < expected) {
    short_batch_ = {start_.phase, step.start};
  } else if (start_.tail == Tail::drop && rest < expected) {
    add(ProblemKind::size, step, -1,
        fmt::format("a batch where only {} samples are left; drop ends here", rest));
  } else if (step.n != expected) {
    add(ProblemKind::size, step, -1, fmt::format("{} slots, not {}", step.n, expected));
  }
}

// An equal part, of slots in a row or of every R-th from the rank's number on.
void SampleAuditor::check_share(const Step& step, const Slice& slice) {
  if (start_.split == Split::by_shard) return;
  const std::int64_t world = start_.world.size;
  const bool takes_turns = start_.split == Split::interleaved;
  const std::int64_t stride = takes_turns ? world : 1;
  const std::int64_t first = takes_turns ? slice.rank : share(step.n, slice.rank, world);
  const std::int64_t expected =
      takes_turns ? (step.n - slice.rank + world - 1) / world : share(step.n, slice.rank + 1, world) - first;
  const auto& slots = slice.batch->slots;
  std::int64_t next = first - stride;
  const bool are_its =
      std::ranges::all_of(slots, [&](std::int64_t slot) { return !takes_turns || slot == (next += stride); });
  if (are_its && std::ssize(slots) == expected) return;
  add(ProblemKind::slices, step, slice.rank,
      fmt::format("{} slots, not its share of {} of {}: slots {}, {}, ...", slots.size(), expected, step.n,
                  first, first + stride));
}

void SampleAuditor::check_slot(const Step& step, const Slice& slice, std::size_t i, bool counts) {
  const std::int64_t id = slice.batch->ids[i];
  Dataset* const dataset = dataset_of(id);
  if (dataset == nullptr) {
    add(ProblemKind::range, step, slice.rank,
        fmt::format("sample {}; the dataset has {}", id, digests_.size()));
    return;
  }
  if (dataset - datasets_.data() != slice.batch->datasets[i]) {
    add(ProblemKind::range, step, slice.rank,
        fmt::format("sample {} is said to be of dataset {}, and is of {}", id, slice.batch->datasets[i],
                    dataset - datasets_.data()));
  }
  const SlotKind kind = slice.batch->kinds[i];
  if (kind != SlotKind::skipped) check_content(step, slice, i);
  if (kind == SlotKind::pad || !counts) return;
  ++report_.samples;
  ++phase().samples;
  if (kind == SlotKind::skipped) ++report_.skipped;
  const std::int64_t epoch = epoch_of(step, *slice.batch, i);
  if (slice.batch->epochs[i] != epoch) {
    add(ProblemKind::range, step, slice.rank,
        fmt::format("sample {} is said to be of epoch {}, and is of {}", id, slice.batch->epochs[i], epoch));
  }
  dataset->epoch = std::max(dataset->epoch, epoch);
  if (is_mixture() && dataset->coverage.is_closed(epoch)) {
    add(ProblemKind::gap, step, slice.rank, fmt::format("sample {} of epoch {}, which was over", id, epoch));
  }
  if (dataset->coverage.is_closed(epoch) || dataset->coverage.tick(epoch, id - dataset->first_id)) return;
  add(ProblemKind::repeated, step, slice.rank,
      fmt::format("sample {} was read before in epoch {}", id, epoch));
}

void SampleAuditor::check_padding(const Step& step, const Slice& slice, std::size_t i, bool counts) {
  const std::int64_t id = slice.batch->ids[i];
  if (dataset_of(id) == nullptr) return;  // said before
  const bool is_pad = slice.batch->kinds[i] == SlotKind::pad;
  const bool is_past_end = step.start.consumed + slice.batch->slots[i] >= samples_;
  const bool may_be = start_.tail == Tail::pad && (is_past_end || (is_mixture() && is_pad));
  if (is_pad != may_be) {
    add(ProblemKind::padding, step, slice.rank,
        fmt::format("sample {} is {}marked as padding", id, is_pad ? "" : "not "));
  }
  if (!is_pad || !counts) return;
  ++report_.padded;
  if (is_mixture()) {
    short_batch_ = {start_.phase, step.start};
    return;
  }
  const Coverage& coverage = datasets_[0].coverage;
  if (coverage.is_closed(step.start.epoch) || coverage.has(step.start.epoch, id)) return;
  add(ProblemKind::padding, step, slice.rank,
      fmt::format("padding repeats sample {}, which was not read yet", id));
}

void SampleAuditor::check_content(const Step& step, const Slice& slice, std::size_t i) {
  const std::int64_t id = slice.batch->ids[i];
  const std::uint64_t digest = slice.batch->digests[i];
  std::uint64_t& before = digests_[static_cast<std::size_t>(id)];
  auto is_known = has_digest_[static_cast<std::size_t>(id)];
  if (!is_known) before = digest;
  is_known = true;
  if (digest == before) return;
  add(ProblemKind::content, step, slice.rank,
      fmt::format("sample {} has digest {:016x}, and had {:016x} before", id, digest, before));
}

// That of its place; of a mixture, whose datasets have their own, that which its record says.
std::int64_t SampleAuditor::epoch_of(const Step& step, const TraceBatch& batch, std::size_t i) const {
  if (is_mixture()) return batch.epochs[i];
  const std::int64_t turn = step.start.consumed + batch.slots[i];
  return step.start.epoch + (start_.tail == Tail::carry ? turn / samples_ : 0);
}

Dataset* SampleAuditor::dataset_of(std::int64_t id) {
  for (Dataset& dataset : datasets_) {
    if (id >= dataset.first_id && id - dataset.first_id < dataset.samples) return &dataset;
  }
  return nullptr;
}

void SampleAuditor::check_rerun(const Step& step, const Canonical& batch) {
  const auto before = rolled_back_.extract(key_of(step));
  if (before.empty() || !step.is_complete()) return;
  for (const RolledBack& part : before.mapped()) {
    if (part.is_in(batch)) continue;
    add(ProblemKind::order, step, -1,
        fmt::format("other samples than when rank {} of phase {} ran this batch before it was rolled back",
                    part.rank, part.phase));
  }
}

Canonical SampleAuditor::assemble(const Step& step) {
  struct Entry {
    std::int64_t slot = 0;
    const TraceBatch* batch = nullptr;
    std::size_t i = 0;
  };
  std::vector<Entry> entries;
  for (const auto& [rank, batch] : step.slices) {
    for (std::size_t i = 0; i < batch->size(); ++i) entries.push_back({batch->slots[i], batch, i});
  }
  if (start_.split != Split::by_sample) {
    std::ranges::stable_sort(entries, {}, &Entry::slot);
    std::int64_t slot = 0;
    for (const Entry& entry : entries) slot += entry.slot == slot ? 1 : 0;
    if (step.is_complete() && (slot != std::ssize(entries) || slot != step.n)) {
      add(ProblemKind::slices, step, -1,
          fmt::format("{} samples fill {} of {} slots", entries.size(), slot, step.n));
    }
  }
  Canonical whole;
  for (const auto& [slot, batch, i] : entries) {
    whole.ids.push_back(batch->ids[i]);
    whole.kinds.push_back(batch->kinds[i]);
    whole.digests.push_back(batch->kinds[i] == SlotKind::skipped ? 0 : batch->digests[i]);
  }
  return whole;
}

void SampleAuditor::close_epochs(Dataset& dataset, std::int64_t before, std::int64_t dropped) {
  for (const Missing& missing : dataset.coverage.close_before(before)) {
    const std::int64_t allowed = missing.first_epoch == before - 1 ? dropped : 0;
    if (missing.count <= allowed) {
      report_.dropped += missing.count;
      continue;
    }
    const std::string of = is_mixture() ? fmt::format("dataset {}, ", &dataset - datasets_.data()) : "";
    problems_->add({.kind = ProblemKind::missing,
                    .phase = start_.phase,
                    .text = of + describe(missing, dataset.samples, allowed),
                    .count = missing.last_epoch - missing.first_epoch + 1});
  }
}

void SampleAuditor::close_mixture() {
  for (Dataset& dataset : datasets_) {
    const std::int64_t rest = dataset.coverage.count(dataset.epoch);
    const bool is_whole = rest == dataset.samples;
    report_.datasets.push_back({.samples = dataset.samples,
                                .epochs = dataset.epoch + (is_whole ? 1 : 0),
                                .rest = is_whole ? 0 : rest});
  }
}

void SampleAuditor::close_run() {
  // Nothing more comes of an epoch whose rest is dropped.
  const Position next{.epoch = at_.epoch + 1, .consumed = 0, .step = at_.step};
  const bool is_whole = at_.consumed == 0 || drops_to(next);
  if (at_.consumed > 0 && is_whole) move_to(next, false);
  const bool has_batches = samples_ > 0 && !(start_.tail == Tail::drop && samples_ < start_.batch);
  if ((options_.complete || options_.epochs) && !is_whole) {
    problems_->add({.kind = ProblemKind::unfinished,
                    .text = fmt::format("the run stands at {}, in an epoch of {}", text(at_), samples_)});
  } else if (options_.epochs && at_.epoch != *options_.epochs && has_batches) {
    problems_->add(
        {.kind = ProblemKind::unfinished,
         .text = fmt::format("the run has {} complete epochs, not {}", at_.epoch, *options_.epochs)});
  }
}

}  // namespace

std::unique_ptr<Auditor> make_sample_auditor(const AuditOptions& options, const trace::TraceStart& first,
                                             Problems& problems) {
  return std::make_unique<SampleAuditor>(options, first, problems);
}

}  // namespace rota::cli
