// The part of the audit that looks into the slices: who has which slot, and what is in it.

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "cli/sample_auditor.hpp"

namespace rota::trace {

void SampleAuditor::check_share(const Step& step, const Slice& slice) {
  if (start_.split == Split::interleaved) return check_turns(step, slice);
  if (start_.split != Split::by_sample) return;
  const int world = start_.world.size;
  const std::int64_t begin = share(step.n, slice.rank, world);
  const std::int64_t expected = share(step.n, slice.rank + 1, world) - begin;
  const auto size = static_cast<std::int64_t>(slice.batch->size());
  if (size == expected) return;
  add(ProblemKind::slices, step, slice.rank,
      fmt::format("{} slots, not its share of {}: slots {} to {} of {}", size, expected, begin,
                  begin + expected - 1, step.n));
}

// Every R-th slot, from the rank's number on.
void SampleAuditor::check_turns(const Step& step, const Slice& slice) {
  const auto& slots = slice.batch->slots;
  const int world = start_.world.size;
  const std::int64_t expected = (step.n - slice.rank + world - 1) / world;
  std::int64_t turn = slice.rank - world;
  const bool are_turns =
      std::ranges::all_of(slots, [&](std::int64_t slot) { return slot == (turn += world); });
  if (are_turns && std::ssize(slots) == std::max<std::int64_t>(expected, 0)) return;
  add(ProblemKind::slices, step, slice.rank,
      fmt::format("{} slots, not its share of {}: slots {}, {}, ...", slots.size(), expected, slice.rank,
                  slice.rank + world));
}

void SampleAuditor::check_slot(const Step& step, const Slice& slice, std::size_t i, bool counts) {
  const std::int64_t id = slice.batch->ids[i];
  Dataset* const dataset = dataset_of(id);
  if (dataset == nullptr) {
    add(ProblemKind::range, step, slice.rank,
        fmt::format("sample {}; the dataset has {}", id, contents_.size()));
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
  const std::int64_t epoch = epoch_of(step, slice, i);
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

// That of its place; of a mixture, whose datasets have their own, that which its record says.
std::int64_t SampleAuditor::epoch_of(const Step& step, const Slice& slice, std::size_t i) const {
  if (is_mixture()) return slice.batch->epochs[i];
  const std::int64_t turn = step.start.consumed + slice.batch->slots[i];
  return step.start.epoch + (start_.tail == Tail::carry ? turn / samples_ : 0);
}

SampleAuditor::Dataset* SampleAuditor::dataset_of(std::int64_t id) {
  for (Dataset& dataset : datasets_) {
    if (id >= dataset.first_id && id - dataset.first_id < dataset.samples) return &dataset;
  }
  return nullptr;
}

void SampleAuditor::check_content(const Step& step, const Slice& slice, std::size_t i) {
  const std::int64_t id = slice.batch->ids[i];
  const std::uint64_t digest = slice.batch->digests[i];
  const auto before = contents_.differing(id, digest);
  if (!before) return;
  add(ProblemKind::content, step, slice.rank,
      fmt::format("sample {} has digest {:016x}, and had {:016x} before", id, digest, *before));
}

void SampleAuditor::keep_rolled_back(const Step& step) {
  for (const Slice& slice : step.slices) {
    if (slice.state != Slice::State::present || slice.batch->size() == 0) continue;
    rolled_back_[key_of(step)].push_back(
        {.phase = start_.phase, .rank = slice.rank, .slots = slice.batch->slots, .ids = slice.batch->ids});
  }
}

void SampleAuditor::check_rerun(const Step& step) {
  const auto pieces = rolled_back_.find(key_of(step));
  if (pieces == rolled_back_.end()) return;
  if (step.is_complete()) {
    for (const Piece& piece : pieces->second) {
      const auto is_same = [&](std::int64_t slot, std::int64_t id) {
        return slot >= 0 && slot < std::ssize(canonical_.ids) &&
               canonical_.ids[static_cast<std::size_t>(slot)] == id;
      };
      if (std::ranges::equal(piece.slots, piece.ids, is_same)) continue;
      add(ProblemKind::order, step, -1,
          fmt::format("other samples than when rank {} of phase {} ran this batch before it was rolled back",
                      piece.rank, piece.phase));
    }
  }
  rolled_back_.erase(pieces);
}

void SampleAuditor::assemble(const Step& step) {
  struct Entry {
    std::int64_t slot = 0;
    const TraceBatch* batch = nullptr;
    std::size_t i = 0;
  };
  std::vector<Entry> entries;
  for (const Slice& slice : step.slices) {
    if (slice.state != Slice::State::present) continue;
    for (std::size_t i = 0; i < slice.batch->size(); ++i)
      entries.push_back({slice.batch->slots[i], slice.batch, i});
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
  canonical_ = {};
  for (const Entry& entry : entries) {
    const SlotKind kind = entry.batch->kinds[entry.i];
    canonical_.ids.push_back(entry.batch->ids[entry.i]);
    canonical_.kinds.push_back(kind);
    canonical_.digests.push_back(kind == SlotKind::skipped ? 0 : entry.batch->digests[entry.i]);
  }
}

}  // namespace rota::trace
