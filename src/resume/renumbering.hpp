#pragma once

// Datasets of a run that come and go between a state and the program that goes on from it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "resume/saved_state.hpp"
#include "rota/run.hpp"

namespace rota::internal {

/// A state, and a run that goes on from it by the numbers that it gives to datasets: those that it knows keep
/// theirs, new ones come behind, and one that is not there any more has its number, at weight 0.
class Renumbering {
 public:
  struct Made {
    Run run;
    Json state;
    std::int64_t added = 0;
  };

  /// `saved` must outlive it. `run` has the program's weights and plan; of its datasets `own` are there, as
  /// the program has them. Throws Error{mismatch} for one that is another one now, or that the state cannot
  /// do without.
  Renumbering(const SavedState& saved, const Run& run, const std::vector<std::string>& own, Split split);
  /// Whether numbers are others than those of `run`.
  [[nodiscard]] bool is_other() const noexcept { return made_.has_value(); }
  /// As of the datasets that there are now.
  [[nodiscard]] const SavedState& saved() const noexcept { return state_ ? *state_ : saved_; }
  /// Of these; `run`, or, where numbers are others, at its beginning.
  [[nodiscard]] const Run& run() const noexcept { return made_ ? made_->run : run_; }
  /// Datasets that the state does not know.
  [[nodiscard]] std::int64_t added() const noexcept { return made_ ? made_->added : 0; }

 private:
  const SavedState& saved_;
  Run run_;
  std::optional<Made> made_;
  std::optional<SavedState> state_ = {};
};

}  // namespace rota::internal
