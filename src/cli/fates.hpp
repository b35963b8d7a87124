#pragma once

// What became of samples that are settled by hand, as traces say: each is settled once, or dropped, or open.

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "cli/audit.hpp"
#include "trace/phases.hpp"

namespace rota::cli {

/// Follows what is open through the phases of a run. *One thread.*
class Fates {
 public:
  /// Whether a sample was handed out, in steps that are not rolled back.
  using IsOut = std::function<bool(const trace::TraceName&)>;
  /// Tells of a problem of a rank, or, of none in particular, -1; how many are like it.
  using Report = std::function<void(ProblemKind kind, int rank, std::string what, std::int64_t count)>;

  Fates(IsOut was_handed_out, Report report)
      : was_handed_out_(std::move(was_handed_out)), report_(std::move(report)) {}

  /// Begins a phase. What its ranks have open is open again. What else was must be of steps that are rolled
  /// back, for it comes no more.
  void begin(const trace::Phase& phase);
  /// A step of the phase has it.
  void hand_out(const trace::TraceSlot& slot) {
    if (is_by_hand_ && slot.kind == SlotKind::sample) open_.insert(name_of(slot));
  }
  void hear(int rank, const trace::TraceFate& fate);
  /// All steps of the phase were told; whether it ended in order, and is whole.
  void end(bool is_in_order);

  /// Tells of the end of the run.
  void finish(AuditReport& report);

 private:
  struct Early {  // said before the record of its step
    int rank = 0;
    trace::TraceName name;
    bool is_dropped = false;
  };
  static trace::TraceName name_of(const trace::TraceSlot& slot) { return {slot.epoch, slot.id}; }
  bool close(const trace::TraceName& name, bool is_dropped);

  IsOut was_handed_out_;
  Report report_;
  bool is_by_hand_ = false;  // in this phase
  bool was_by_hand_ = false;
  std::set<trace::TraceName> open_;
  std::set<trace::TraceName> dropped_;
  std::vector<Early> early_;
};

}  // namespace rota::cli
