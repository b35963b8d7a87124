#pragma once

// Which turns make a step: the arithmetic of batches and epochs, without an order. Next: schedule.hpp.

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "rota/types.hpp"

namespace rota::internal {

__extension__ using i128 = __int128;

/// Turns [begin, end) of one epoch, part of a global batch.
struct TurnRange {
  std::int64_t epoch = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  SlotKind kind = SlotKind::sample;
  std::int32_t dataset = 0;  ///< of a mixture
  friend bool operator==(const TurnRange&, const TurnRange&) = default;
};

/// One step of all ranks together.
struct GlobalBatch {
  Position start;                      ///< before the batch
  Position next;                       ///< after it
  std::int64_t size = 0;               ///< slots, padding included
  std::int64_t real = 0;               ///< samples that count
  std::vector<TurnRange> turn_ranges;  ///< what fills the slots, in order
};

/// Where a sample has its turn: epoch, and how many samples the epoch consumes before it.
struct Turn {
  std::int64_t epoch = 0;
  std::int64_t consumed = 0;
  friend bool operator==(const Turn&, const Turn&) = default;
};

/// An open sample, by its turn in its dataset. Its *ordinal* there is epoch x N + turn: no batch size, world
/// or weight is in it.
struct OpenTurn {
  std::int64_t dataset = 0;
  std::int64_t epoch = 0;
  std::int64_t turn = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): the zero that it sees is the compiler's
  friend auto operator<=>(const OpenTurn&, const OpenTurn&) = default;
};
/// Ascending, none twice.
using OpenTurns = std::vector<OpenTurn>;

/// The steps of a run over one dataset. A value of three numbers. *Immutable.*
class Steps {
 public:
  Steps(std::int64_t samples, Tail tail, std::int64_t epochs) noexcept
      : samples_(samples), tail_(tail), epochs_(epochs) {}

  /// Throws Error{out_of_range} for a position outside the run.
  void require(const Position& at) const;

  /// The global batch of `batch_size`, 1 to kMaxBatchSize, that starts at `at`, into `out`; false at the end
  /// of the last epoch, and at step 2^62. Throws as `require`.
  bool batch(const Position& at, std::int64_t batch_size, GlobalBatch& out) const;

  /// The number of the step that is behind the last one, in a run that goes on from there with batches of
  /// `batch_size`; 2^63 - 1 where it is as high or higher. Throws Error{unsupported} without a last epoch.
  [[nodiscard]] std::int64_t count(const Position& from, std::int64_t batch_size) const;

  /// Do batches of `batch_size` from `from` on lead to `at`?
  [[nodiscard]] bool lead(const Position& from, std::int64_t batch_size, const Position& at) const;

  /// Where the batch starts that has `turn`, which is not before `from`, in a run that goes on from there
  /// with batches of `batch_size`. Nothing for a turn that is dropped, past the last epoch or past step 2^63
  /// - 1.
  [[nodiscard]] std::optional<Position> find(const Position& from, std::int64_t batch_size,
                                             const Turn& turn) const;

  /// Where `step`, which is not before `from`, starts in such a run. Nothing past the last step.
  [[nodiscard]] std::optional<Position> start_of(const Position& from, std::int64_t batch_size,
                                                 std::int64_t step) const;

  [[nodiscard]] std::int64_t samples() const noexcept { return samples_; }
  [[nodiscard]] Tail tail() const noexcept { return tail_; }
  [[nodiscard]] std::int64_t epochs() const noexcept { return epochs_; }
  friend bool operator==(const Steps&, const Steps&) = default;

 private:
  /// Batches from a position to the one that has a turn, and how many of that one come before it.
  struct Way {
    i128 batches;
    std::int64_t rest;
  };
  [[nodiscard]] Way way(const Position& from, std::int64_t batch_size, const Turn& to) const;
  /// Steps in what is `left` of an epoch, where none goes into the next.
  [[nodiscard]] std::int64_t steps_of(std::int64_t left, std::int64_t batch_size) const noexcept;

  std::int64_t samples_;
  Tail tail_;
  std::int64_t epochs_;
};

}  // namespace rota::internal
