#include "cli/fates.hpp"

#include <fmt/format.h>

#include <iterator>
#include <utility>

namespace rota::cli {

using trace::TraceFate;
using trace::TraceName;

namespace {

std::string text_of(const TraceName& name, const char* what) {
  return fmt::format("sample {} of epoch {} {}", name.id, name.epoch, what);
}

}  // namespace

void Fates::begin(const trace::Phase& phase) {
  is_by_hand_ = phase.start.is_by_hand;
  was_by_hand_ = was_by_hand_ || is_by_hand_;
  std::set<TraceName> open;
  for (const auto& [rank, start] : phase.starts) open.insert(start.open.begin(), start.open.end());
  for (const TraceName& name : open) {
    if (!was_handed_out_(name))
      report_(ProblemKind::gap, -1, text_of(name, "is open here, and was not handed out before"), 1);
    dropped_.erase(name);
  }
  std::erase_if(dropped_, [&](const TraceName& name) { return !was_handed_out_(name); });
  std::erase_if(open_, [&](const TraceName& name) { return open.contains(name) || !was_handed_out_(name); });
  const bool knows_all = std::ssize(phase.starts) == phase.start.world.size;
  if (knows_all && !open_.empty()) {
    report_(ProblemKind::missing, -1,
            text_of(*open_.begin(), "was neither settled nor dropped, and is not open here"),
            std::ssize(open_));
    open_.clear();
  }
  open_.merge(open);
}

void Fates::hear(int rank, const TraceFate& fate) {
  for (const trace::TraceSlot& slot : fate.slots) {
    const TraceName name = name_of(slot);
    if (slot.kind == SlotKind::pad) continue;
    if (!was_handed_out_(name))
      report_(ProblemKind::repeated, rank, text_of(name, "comes again, and was not handed out before"), 1);
    if (!is_by_hand_ || slot.kind == SlotKind::skipped) open_.erase(name);
  }
  const bool is_dropped = fate.kind == TraceFate::Kind::dropped;
  for (const TraceName& name : fate.names)
    if (!close(name, is_dropped)) early_.push_back({rank, name, is_dropped});
}

bool Fates::close(const TraceName& name, bool is_dropped) {
  if (open_.erase(name) == 0) return false;
  if (is_dropped) dropped_.insert(name);
  return true;
}

// A phase that was killed may have lost the record of the step.
void Fates::end(bool is_in_order) {
  for (const auto& [rank, name, is_dropped] : std::exchange(early_, {})) {
    if (close(name, is_dropped)) continue;
    const bool was_out = was_handed_out_(name);
    const std::string said = is_dropped ? "is dropped, and was " : "is settled, and was ";
    if (was_out || is_in_order)
      report_(ProblemKind::repeated, rank,
              text_of(name, (said + (was_out ? "settled or dropped before" : "not handed out")).c_str()), 1);
  }
}

void Fates::finish(AuditReport& report) {
  report.is_by_hand = was_by_hand_;
  report.open = std::move(open_);
  report.dropped_by_hand = std::move(dropped_);
}

}  // namespace rota::cli
