#pragma once

// A run as a value: an order, and a place in it, without data, threads or ranks. Next: loader.hpp.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rota/balance.hpp"
#include "rota/fingerprint.hpp"
#include "rota/run_plan.hpp"
#include "rota/types.hpp"
#include "rota/world.hpp"

namespace rota {

namespace internal {

class Planner;
struct OpenTurn;
struct RunAccess;
class RunPath;
struct RunOrder;

/// What a Run remembers of where it has looked. Copies begin with nothing. Threads take it from one another.
class RunMemory {
 public:
  RunMemory() noexcept = default;
  RunMemory(const RunMemory& /*other*/) noexcept {}
  RunMemory& operator=(const RunMemory& other) noexcept;
  ~RunMemory();
  [[nodiscard]] std::unique_ptr<Planner> take() const noexcept;
  void give_back(std::unique_ptr<Planner> planner) const noexcept;

 private:
  mutable std::atomic<Planner*> planner_ = nullptr;
};

}  // namespace internal

/// A dataset, as far as its order needs to know it.
struct RunData {
  std::int64_t samples = 0;
  /// [L], samples of each shard, in order, where shards are files or units. Empty: RunOptions::shards of
  /// them, of equal lengths.
  std::vector<std::int64_t> shard_lengths = {};
  /// Samples of each block of Shuffle::block, in order, where RunOptions::block has 0 samples.
  std::vector<std::int64_t> block_lengths = {};
  std::string name = {};                            ///< of a mixture's, as Mixture::Part has it
  std::optional<Fingerprint> fingerprint = {};      ///< what it is known by; without it, by its size
  std::optional<Fingerprint> own_fingerprint = {};  ///< where `known_as` has it known by another one
  friend bool operator==(const RunData&, const RunData&) = default;
};

/// The options of a Run: those of LoaderOptions and Mixture that say which samples are in which step.
struct RunOptions {
  std::int64_t global_batch_size = 32;
  std::int64_t shards = 0;  ///< of each dataset; 0: 1 under Shuffle::none without `interleave`, else 256
  std::int64_t interleave = 0;
  Shuffle shuffle = Shuffle::global;
  std::uint64_t seed = 0;
  BlockShape block = {};
  Tail tail = Tail::partial;
  std::int64_t epochs = 1;
  std::vector<double> weights = {};  ///< of a mixture, one for each dataset
  MixtureEnd end = MixtureEnd::first_exhausted;
  std::int64_t steps = 0;
  RunPlan plan = {};
  std::optional<Fingerprint> fingerprint = {};  ///< what the data are known by; without it, by their sizes

  /// Throws Error{invalid_argument} naming the option, its value and what it may be.
  void validate() const;
};

/// The place of a sample in a run: its batch, rank and slot.
struct BatchSlot {
  std::int64_t step = 0;    ///< of the batch: Batch::start().step
  int rank = 0;             ///< the rank that reads it
  std::int64_t slot = 0;    ///< of the global batch, as in Batch::slots()
  bool is_skipped = false;  ///< the plan leaves that step out, or the sample
  friend bool operator==(const BatchSlot&, const BatchSlot&) = default;
};

/// What one rank has of a global batch: lists of equal length, by slot.
struct RunSlice {
  Position start;                ///< before the batch
  Position end;                  ///< behind it
  std::int64_t global_size = 0;  ///< slots of all ranks, padding included
  std::int64_t global_real = 0;  ///< of these, samples that count
  /// Of the global batch, ascending; under Split::balanced in each micro-batch.
  std::vector<std::int64_t> slots;
  std::vector<SampleId> ids;           ///< of a mixture as Loader::first_id numbers them
  std::vector<SlotKind> kinds;         ///< samples, padding, and what a plan leaves out
  std::vector<std::int64_t> epochs;    ///< of each sample; of a mixture its dataset's own
  std::vector<std::int32_t> datasets;  ///< of a mixture
  std::int64_t left_again = 0;         ///< samples of all ranks that come again behind it
  /// Split::balanced: where each micro-batch ends in these lists. Some may be empty.
  std::vector<std::int64_t> micro_ends;
  std::vector<std::int64_t> global_sums;  ///< and of each column of lengths: of all samples that count
  BatchCosts costs = {};
  /// Whether it is of samples that were handed out before, and are open: no step, so that it moves no
  /// position.
  [[nodiscard]] bool is_again() const noexcept { return start.step == end.step; }
};

/// An order and a place in it, as a value: copies share what never changes, and cost some 10 ns whatever the
/// size of the dataset. A Loader has one, and so does each sampler of Python. On its own it answers, without
/// data, what any rank of any world reads when.
///
///     rota::Run run(1'000'000, {.global_batch_size = 512, .seed = 7});
///     rota::RunSlice slice;
///     while (run.slice(slice, {.rank = 3, .size = 64})) {
///       train(slice.ids);
///       run.advance(slice);
///     }
///
/// Const methods may be called from any thread, several at once. Batches of 10^5 samples take some 1 ms.
class Run {
 public:
  /// Over one dataset of so many samples, 0 to 2^62, in equal shards.
  explicit Run(std::int64_t samples, const RunOptions& options = {});
  /// Over one dataset, or over a mixture, which has `options.weights`. Throws Error{invalid_argument} from
  /// `options.validate()`; for lengths below 0, or that do not add up; for a mixture with an empty
  /// dataset or with shards of its own number, and for more than 2^24 shards of all of them.
  explicit Run(const std::vector<RunData>& data, const RunOptions& options);

  /// Of what `state` has returned, of a Run or of a Loader. Throws Error{corrupt} for a text that is damaged,
  /// Error{unsupported} for one of a newer version, and where it needs lengths that it does not have: those
  /// of shards that are files or units, and of blocks that are units. `recipe` has them, and so has the Run
  /// that first began. Error{mismatch} for the state of another kind of loader.
  /// With `lengths` it takes these, and throws Error{mismatch} where they are not those of the state.
  static Run from(std::string_view state, const std::vector<RunData>& lengths = {});
  /// Where the run is, and what defines its order: what a Loader's `state` is, as JSON. What a Run does not
  /// use (content, skipped samples, world size) stays as in the text that it was made from.
  [[nodiscard]] std::string state() const;
  /// The same with the lengths that `state` has only a digest of: to be kept once. `from` reads it.
  [[nodiscard]] std::string recipe() const;

  // No moves: a copy is as cheap.
  Run(const Run&) noexcept = default;
  Run& operator=(const Run&) noexcept = default;

  /// What the rank of `world` has of the next batch, into `out`; false at the end of the run. O(1) for each
  /// sample; Split::by_shard and interleaved: and for each shard of the batch. Throws Error{invalid_argument}
  /// from `world.validate()`. Split::balanced takes a `balance`, and no other does: O(B log B). Throws
  /// Error{invalid_argument} from `balance.validate()`, for lengths that it lacks, or of another number of
  /// samples, Error{out_of_range} for costs of a batch beyond 2^62.
  bool slice(RunSlice& out, World world = {}, Split split = Split::by_sample,
             const Balance& balance = {}) const;
  /// Goes behind the next batch; false at the end of the run.
  bool advance();
  /// The same, behind `slice`. Throws Error{invalid_argument} unless that begins and ends as the next batch
  /// does.
  void advance(const RunSlice& slice);

  /// The run at another step, in the future or the past. Nothing past the last step. O(1); where shards are
  /// of several lengths its first `slice` takes O(L). Throws Error{out_of_range} below 0. Throws
  /// Error{unsupported} for a step before the last 64 changes by `set_weights` and `set_global_batch_size`,
  /// or before a place that was gone to and to which these batches do not lead.
  [[nodiscard]] std::optional<Run> at(std::int64_t step) const;
  /// Where that is.
  [[nodiscard]] std::optional<Position> position_of(std::int64_t step) const;
  /// The step, and the rank of a world of `ranks`, in which sample `id` of `epoch` is read. Of a mixture
  /// `epoch` is the dataset's own. Nothing for a sample that is never read: dropped, or past the end. O(L +
  /// B). Throws Error{out_of_range} for an invalid id or epoch, Error{unsupported} as `at`.
  [[nodiscard]] std::optional<BatchSlot> when(SampleId id, std::int64_t epoch, int ranks = 1,
                                              Split split = Split::by_sample,
                                              const Balance& balance = {}) const;
  /// Whether the plan leaves a step out.
  [[nodiscard]] bool is_skipped(std::int64_t step) const noexcept;
  /// Steps of an epoch at this batch size, and of all stages and epochs, with those that are left out. Throws
  /// Error{unsupported} for a mixture that datasets end, and of `steps` without a last epoch.
  [[nodiscard]] std::int64_t steps_per_epoch() const;
  [[nodiscard]] std::int64_t steps() const;
  /// Whether there is no next batch.
  [[nodiscard]] bool is_over() const;
  /// What is open before its place: handed out, and not settled when the state was taken that it was made of.
  /// The next slices are of these, in batches of today's size; the last is short, or padded; under Tail::drop
  /// it is left out. None of them in a run that went elsewhere.
  [[nodiscard]] RunSlice open() const;

  /// As those of Loader.
  void seek(const Position& position);
  void seek(const Position& position, const MixtureState& mixture);
  void seek_step(std::int64_t step);
  void restart();
  void set_global_batch_size(std::int64_t size);
  void set_weights(std::span<const double> weights);
  void replan(const RunPlan& plan);
  [[nodiscard]] Position position() const noexcept { return position_; }
  /// Null without a mixture. Valid until the run changes.
  [[nodiscard]] const MixtureState* mixture() const noexcept;
  void cursors(std::int64_t first, std::span<std::int64_t> out) const;

  /// What it was made of. The number of shards and the fingerprint are resolved, batch size and weights are
  /// those of now.
  [[nodiscard]] RunOptions options() const;
  [[nodiscard]] std::vector<RunData> data() const;
  [[nodiscard]] const RunPlan& plan() const noexcept;
  [[nodiscard]] std::int64_t global_batch_size() const noexcept;
  /// Of all datasets.
  [[nodiscard]] std::int64_t samples() const noexcept;
  /// Whether both have the same order, batches and place.
  friend bool operator==(const Run& a, const Run& b);

 private:
  friend internal::RunAccess;
  Run(std::shared_ptr<const internal::RunOrder> order, std::shared_ptr<const internal::RunPath> path);

  template <typename Work>
  auto with_planner(Work work) const;

  std::shared_ptr<const internal::RunOrder> order_;
  std::shared_ptr<const internal::RunPath> path_;
  std::shared_ptr<const RunPlan> own_plan_;  // of the program; by that of a state it may go on
  Position position_ = {};
  std::shared_ptr<const std::vector<internal::OpenTurn>> open_ = {};
  std::int64_t again_ = 0;                        // of these, handed out again
  std::shared_ptr<const std::string> text_ = {};  // that it was made of
  internal::RunMemory memory_;
};

}  // namespace rota
