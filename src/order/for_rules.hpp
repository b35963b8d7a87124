#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "rota/run.hpp"

namespace rota::internal {

/// Where each `for` over a run begins, and whether it gives anything: of loaders and samplers, in C++ and
/// Python, as the table in docs/validate.md says. *One thread.*
class ForRules {
 public:
  /// `is_evaluation`: each begins anew; whoever begins one moves the run. `is_of_one_epoch`: each ends with
  /// the epoch, else with the run.
  ForRules(bool is_evaluation, bool is_of_one_epoch) noexcept
      : is_evaluation_(is_evaluation), is_of_one_epoch_(is_of_one_epoch) {}

  /// All that it knows, to be kept.
  using Numbers = std::array<std::int64_t, 5>;
  explicit ForRules(const Numbers& of) noexcept
      : is_evaluation_(of[0] != 0),
        is_of_one_epoch_(of[1] != 0),
        is_restored_(of[2] != 0),
        is_epoch_over_(of[3] != 0),
        told_epoch_(of[4]) {}
  [[nodiscard]] Numbers numbers() const noexcept {
    return {is_evaluation_, is_of_one_epoch_, is_restored_, is_epoch_over_, told_epoch_};
  }

  /// Begins one. False: it gives nothing. `said` is for people, mostly empty. Throws Error{invalid_argument}
  /// where all epochs are over.
  bool begin(Run& run, std::string& said);
  /// Of one that counts nothing: whether it gives nothing, for it is of an epoch that a restored state has
  /// behind it, or of which Tail::drop leaves nothing; then the run goes to the next one.
  bool take_end(Run& run);
  /// Goes to the start of `epoch`, unless a restore has it otherwise; true if it went. Throws
  /// Error{invalid_argument} for an epoch that is over, Error{out_of_range} below 0.
  bool set_epoch(Run& run, std::int64_t epoch);

  /// A batch was delivered.
  void passed(const Run& run, const Position& start) noexcept {
    if (run.mixture() != nullptr || start.epoch != run.position().epoch) is_restored_ = false;
  }
  /// The next `for` is of an epoch that is over, whatever is left of it; or not.
  void end_epoch(bool is_over) noexcept { is_epoch_over_ = is_over; }
  /// The run was restarted; or restored, or sent elsewhere.
  void restarted() noexcept { is_restored_ = is_epoch_over_ = false; }
  void restored() noexcept {
    is_restored_ = true;
    is_epoch_over_ = false;
  }
  [[nodiscard]] bool is_restored() const noexcept { return is_restored_; }

  /// Whether a run that was just restored is where a `for` ends; and whether one there gives nothing, for
  /// that is not the epoch that it was told to begin.
  [[nodiscard]] bool ends(const Run& run) const;
  [[nodiscard]] bool gives_nothing(const Run& run) const {
    return ends(run) && (!is_of_one_epoch_ || told_epoch_ != run.position().epoch);
  }

 private:
  bool is_evaluation_;
  bool is_of_one_epoch_;
  bool is_restored_ = false;      // until an epoch's last batch was delivered
  bool is_epoch_over_ = false;    // the next `for` is of an epoch that the state has behind it
  std::int64_t told_epoch_ = -1;  // by set_epoch, which a restore that comes later undoes
};

/// Whether the batch before its place was its epoch's last one. Under Tail::carry that has samples of this
/// one, too.
[[nodiscard]] bool begins_epoch(const Run& run);

}  // namespace rota::internal
