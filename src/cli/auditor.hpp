#pragma once

// The checks of an audit, one global batch at a time. Internal to audit.cpp.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "cli/audit.hpp"
#include "cli/coverage.hpp"
#include "cli/steps.hpp"

namespace rota::tracing {

/// Follows a run through its phases, in order. *One thread.*
class Auditor {
 public:
  Auditor(const AuditOptions& options, Problems& problems);

  /// A phase begins. Its batches at or after `limit` were rolled back; `may_run` says that its ranks may
  /// still be writing.
  void begin_phase(const TraceStart& start, std::optional<Place> limit, bool may_run);
  void step(const Step& step);
  void end_phase(const std::vector<std::optional<TraceEnd>>& ends);

  /// The run ends. Problems are left to the caller.
  AuditReport finish();

 private:
  // One rank's part of a global batch that was rolled back.
  struct Piece {
    std::int64_t phase = 0;
    int rank = 0;
    std::vector<std::int64_t> slots;
    std::vector<std::int64_t> ids;
  };
  using PieceKey = std::tuple<Place, std::int64_t, int>;  // start, slots, and the tail where it matters

  // A global batch in canonical order.
  struct Canonical {
    std::vector<std::int64_t> ids;
    std::vector<Mark> marks;
    std::vector<std::uint64_t> digests;
  };

  void check_lockstep(const Step& step, bool counts);
  void check_size(const Step& step);
  void check_place(const Step& step);
  void check_slices(const Step& step, bool counts);
  void check_turns(const Step& step, const Slice& slice);
  void check_share(const Step& step, const Slice& slice);
  void check_slot(const Step& step, const Slice& slice, std::size_t i, bool counts);
  void check_content(const Step& step, const Slice& slice, std::size_t i);
  void check_rerun(const Step& step);
  void keep_rolled_back(const Step& step);
  void assemble(const Step& step);
  void move_to(const Place& place, std::int64_t dropped);

  [[nodiscard]] bool is_effective(const Step& step) const;
  [[nodiscard]] bool drops_to(const Place& place) const;
  [[nodiscard]] std::int64_t left() const noexcept { return options_.samples - at_.consumed; }
  [[nodiscard]] Place after(const Step& step) const;
  [[nodiscard]] PieceKey key_of(const Step& step) const;
  void add(ProblemKind kind, const Step& step, int rank, std::string text);

  AuditOptions options_;
  Problems* problems_;
  Coverage coverage_;
  Contents contents_;
  AuditReport report_;
  Place at_;

  // The phase at hand.
  TraceStart start_;
  std::optional<Place> limit_;
  bool may_run_ = false;
  std::optional<Place> short_carry_;  // a short batch, which only the last of a phase may be

  Canonical canonical_;
  std::map<PieceKey, std::vector<Piece>> rolled_back_;
};

}  // namespace rota::tracing
