#pragma once

// What a run changes on its way: batch sizes and weights by stages, and steps that it leaves out. Next:
// run.hpp.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rota/types.hpp"

namespace rota {

/// A part of a run, from the first step on that starts at `begin` or behind it: until the next stage begins.
struct Stage {
  /// What `begin` counts, from the start of the run on.
  enum class Unit {
    steps,
    samples,  ///< epoch x samples of the dataset + samples of this epoch; of a mixture, of all datasets
    tokens,   ///< samples x RunPlan::tokens_per_sample of their dataset
  };
  std::int64_t begin = 0;
  Unit unit = Unit::samples;
  std::int64_t global_batch_size = 0;  ///< 0: as before
  /// Of a mixture, one for each dataset; 0: it takes no part. Empty: as before.
  std::vector<double> weights = {};
  /// To these they go until the next stage begins, which counts the same unit: in a line, by 32 jumps at
  /// equal distances, each to the mean of its part; shares below 1/2,048 count as that.
  std::vector<double> toward = {};
  /// Samples that nobody reads from here on, by their ids in batches, ascending; up to 65,536 of all stages.
  /// Their slots stay, of SlotKind::skipped, so batches keep their cuts.
  std::vector<SampleId> leave_out = {};
  friend bool operator==(const Stage&, const Stage&) = default;
};

/// Steps [begin, end).
struct StepRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  friend bool operator==(const StepRange&, const StepRange&) = default;
};

/// What a run changes on its way, as a value: a place stays arithmetic, so a run finds any step of any stage
/// without those before. The idea of stages is that of Levanter's mixtures and of Megatron-LM's batch size
/// schedules.
///
///     options.plan.stages = {{.global_batch_size = 768},
///                            {.begin = 250'000'000, .global_batch_size = 1536}};
///     options.plan.skip = {{120'000, 120'050}};  // a spike of the loss
struct RunPlan {
  std::vector<Stage> stages = {};  ///< in the order in which they begin, up to 256
  /// Steps that nobody reads. They keep their numbers and places: behind step 119,999 comes 120,050.
  /// Ascending, apart from one another, up to 4,096.
  std::vector<StepRange> skip = {};
  /// The mean of each dataset, above 0; rounded to 1/1000. Where sequences are packed it is exact.
  std::vector<double> tokens_per_sample = {};
  /// Weights, of the stages, are of tokens: shares of samples are these over tokens_per_sample.
  bool are_weights_of_tokens = false;

  [[nodiscard]] bool empty() const noexcept {
    return stages.empty() && skip.empty() && tokens_per_sample.empty();
  }
  /// Of a run over so many datasets, or, for 0, over one that it does not mix. Throws Error{invalid_argument}
  /// that names the stage, its value and what it may be.
  void validate(std::size_t datasets) const;
  friend bool operator==(const RunPlan&, const RunPlan&) = default;
};

/// A plan as JSON (docs/change.md). Where there are names of datasets, weights may be objects by name, which
/// leave out those of weight 0. Throws Error{invalid_argument} that names the member for what is no such
/// plan, and for a key or name that is not known.
RunPlan parse_plan(std::string_view text, const std::vector<std::string>& names = {});
/// The same back, on a line.
std::string to_string(const RunPlan& plan);

}  // namespace rota
