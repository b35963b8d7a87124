#pragma once

// How a ledger and a run go together: what comes again, and what a state says.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loader/ledger.hpp"
#include "order/steps.hpp"
#include "rota/run.hpp"
#include "rota/stats.hpp"
#include "rota/world.hpp"

namespace rota::internal {

/// The samples of a batch that count.
[[nodiscard]] std::vector<SampleName> names_of(const Batch& batch);
/// Those of a call: "settle", say. Throws Error{invalid_argument} unless there are as many epochs.
[[nodiscard]] std::vector<SampleName> names_of(std::string_view verb, std::span<const SampleId> ids,
                                               std::span<const std::int64_t> epochs);
[[nodiscard]] OpenTurns turns_of(const Run& run, SampleNames names);
[[nodiscard]] std::vector<SampleName> names_of(const Run& run, const OpenTurns& turns);

/// The ledger of whoever hands out a run's batches, and what was given up and is too little for one. The run
/// is behind what was handed out; what comes first in it is open. *One thread*, but for the ledger.
///
/// What comes again is in the ledger of a process alone, where it may be settled meanwhile. Of several ranks,
/// each knows what comes again, the same on all, and to whom it will go.
class Settling {
 public:
  Settling(Settle settle, std::int64_t open_limit, std::int64_t open_bytes = Ledger::kAnyBytes)
      : is_by_hand_(settle == Settle::by_hand), ledger_(std::make_shared<Ledger>(open_limit, open_bytes)) {}

  [[nodiscard]] bool is_by_hand() const noexcept { return is_by_hand_; }
  [[nodiscard]] const std::shared_ptr<Ledger>& ledger() const noexcept { return ledger_; }
  /// Throws Error{invalid_argument} without Settle::by_hand, Error{unsupported} in a forked child.
  [[nodiscard]] const std::shared_ptr<Ledger>& require_ledger(std::string_view verb) const;

  void add_stats(LoaderStats& stats) const;
  /// `batch`, planned of `run`, is handed out. False where nothing is left of one that comes again, for all
  /// was settled since.
  bool hand_out(Run& run, RunSlice& batch, const World& world);
  /// Whether `give` may give anything.
  [[nodiscard]] bool may_give() const noexcept { return is_by_hand_ || !waiting_.empty(); }
  /// Whole batches of what waits, or, at the end of what is new, all of it: they come next in `run`.
  OpenTurns give(Run& run, const World& world, bool is_end);
  /// It is to come again, the same on all ranks.
  void wait_for(const OpenTurns& more) { waiting_.insert(waiting_.end(), more.begin(), more.end()); }
  /// There is no batch: what makes none under Tail::drop is dropped. False where there is nothing.
  bool drop_rest(Run& run, const World& world);
  /// What was open is not any more, because of `by`, and that is told.
  void begin_anew(std::string_view by);
  /// The run went elsewhere, because of `by`.
  void restart(const Run& run, const World& world, std::string_view by);
  void rescale(Run& run, const World& from, const World& to);

  /// Whether something comes again, the same on all ranks.
  [[nodiscard]] bool has_more(const Run& run, const World& world) const {
    return !coming(run, world).empty() || (world.size == 1 && ledger_->counts().given_up > 0);
  }
  /// What comes again.
  [[nodiscard]] OpenTurns coming(const Run& run, const World& world) const;
  /// That and what is out.
  [[nodiscard]] OpenTurns open(const Run& run, const World& world, SampleNames out) const;
  struct Saved {
    Run run;  ///< all is settled but what is open
    std::optional<Position>
        back;  ///< others may have more that is open: it may go back to there for this one
    Ledger::Drops dropped_before;  ///< those that all ranks know
    Ledger::Drops dropped;         ///< by this rank since the last restore
  };
  /// The run as a state has it.
  [[nodiscard]] Saved as_saved(const Run& run, const World& world) const;

  /// `whole` is the state of all ranks, as long as this rank's own is `part`.
  void keep(std::string part, std::string whole) {
    part_ = std::move(part);
    whole_ = std::move(whole);
  }
  /// That, or else this rank's own.
  [[nodiscard]] std::string whole_or(const std::string& own) const { return own == part_ ? whole_ : own; }

 private:
  /// What was to come again, some of which may be settled since.
  [[nodiscard]] OpenTurns planned(const Run& run) const;

  bool is_by_hand_;
  DeleteWhereMade made_;
  std::shared_ptr<Ledger> ledger_;
  OpenTurns waiting_;
  std::string part_;
  std::string whole_;
};

}  // namespace rota::internal
