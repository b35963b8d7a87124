// The part of the audit that looks into the slices: who has which slot, and what is in it.

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "cli/auditor.hpp"

namespace rota::tracing {

void Auditor::check_slices(const Step& step, bool counts) {
  for (const Slice& slice : step.slices) {
    if (slice.state != Slice::State::present) continue;
    check_share(step, slice);
    for (std::size_t i = 0; i < slice.batch->ids.size(); ++i) check_slot(step, slice, i, counts);
  }
}

void Auditor::check_share(const Step& step, const Slice& slice) {
  if (start_.split == Split::interleaved) return check_turns(step, slice);
  if (start_.split != Split::by_sample) return;
  const int world = start_.world.size;
  const std::int64_t begin = share(step.n, slice.rank, world);
  const std::int64_t expected = share(step.n, slice.rank + 1, world) - begin;
  const auto size = static_cast<std::int64_t>(slice.batch->ids.size());
  if (size == expected) return;
  add(ProblemKind::slices, step, slice.rank,
      fmt::format("{} slots, not its share of {}: slots {} to {} of {}", size, expected, begin,
                  begin + expected - 1, step.n));
}

// Every R-th slot, from the rank's number on.
void Auditor::check_turns(const Step& step, const Slice& slice) {
  std::vector<std::int64_t> turns;
  for (std::int64_t slot = slice.rank; slot < step.n; slot += start_.world.size) turns.push_back(slot);
  if (slice.batch->slots == turns) return;
  add(ProblemKind::slices, step, slice.rank,
      fmt::format("{} slots, not its share of {}: slots {}, {}, ...", slice.batch->slots.size(), turns.size(),
                  slice.rank, slice.rank + start_.world.size));
}

void Auditor::check_slot(const Step& step, const Slice& slice, std::size_t i, bool counts) {
  const std::int64_t id = slice.batch->ids[i];
  const Mark mark = slice.batch->marks[i];
  if (id < 0 || id >= options_.samples) {
    add(ProblemKind::range, step, slice.rank,
        fmt::format("sample {}; the dataset has {}", id, options_.samples));
    return;
  }
  if (mark != Mark::skipped) check_content(step, slice, i);

  const std::int64_t turn = step.place.consumed + slice.batch->slots[i];
  const bool is_past_end = turn >= options_.samples;
  const bool is_pad = mark == Mark::pad;
  if (is_pad != (is_past_end && start_.tail == Tail::pad)) {
    add(ProblemKind::padding, step, slice.rank,
        fmt::format("sample {} is {}marked as padding", id, is_pad ? "" : "not "));
  }
  if (!counts) return;
  const std::int64_t epoch = step.place.epoch + (start_.tail == Tail::carry ? turn / options_.samples : 0);
  if (is_pad) {
    ++report_.padded;
    if (!coverage_.is_closed(epoch) && !coverage_.has(epoch, id)) {
      add(ProblemKind::padding, step, slice.rank,
          fmt::format("padding repeats sample {}, which was not read yet", id));
    }
    return;
  }
  ++report_.samples;
  ++report_.phases.back().samples;
  if (mark == Mark::skipped) ++report_.skipped;
  if (coverage_.is_closed(epoch) || coverage_.tick(epoch, id)) return;
  add(ProblemKind::repeated, step, slice.rank,
      fmt::format("sample {} was read before in epoch {}", id, epoch));
}

void Auditor::check_content(const Step& step, const Slice& slice, std::size_t i) {
  const std::int64_t id = slice.batch->ids[i];
  const std::uint64_t digest = slice.batch->digests[i];
  const auto before = contents_.differing(id, digest);
  if (!before) return;
  add(ProblemKind::content, step, slice.rank,
      fmt::format("sample {} has digest {:016x}, and had {:016x} before", id, digest, *before));
}

void Auditor::keep_rolled_back(const Step& step) {
  for (const Slice& slice : step.slices) {
    if (slice.state != Slice::State::present || slice.batch->ids.empty()) continue;
    rolled_back_[key_of(step)].push_back(
        {.phase = start_.phase, .rank = slice.rank, .slots = slice.batch->slots, .ids = slice.batch->ids});
  }
}

void Auditor::check_rerun(const Step& step) {
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

void Auditor::assemble(const Step& step) {
  struct Entry {
    std::int64_t slot = 0;
    const TraceBatch* batch = nullptr;
    std::size_t i = 0;
  };
  std::vector<Entry> entries;
  for (const Slice& slice : step.slices) {
    if (slice.state != Slice::State::present) continue;
    for (std::size_t i = 0; i < slice.batch->ids.size(); ++i)
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
    const Mark mark = entry.batch->marks[entry.i];
    canonical_.ids.push_back(entry.batch->ids[entry.i]);
    canonical_.marks.push_back(mark);
    canonical_.digests.push_back(mark == Mark::skipped ? 0 : entry.batch->digests[entry.i]);
  }
}

}  // namespace rota::tracing
