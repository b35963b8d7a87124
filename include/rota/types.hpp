#pragma once

// Samples, shards, positions, and the enumerations of options. Next: dtype.hpp.

#include <compare>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace rota {

/// A training example, 0 <= value < N in dataset order.
struct SampleId {
  std::int64_t value = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): the zero that it sees is the compiler's
  friend auto operator<=>(const SampleId&, const SampleId&) = default;
};

/// A logical shard, 0 <= value < L: one of the fixed parts of the dataset.
struct ShardId {
  std::int64_t value = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): the zero that it sees is the compiler's
  friend auto operator<=>(const ShardId&, const ShardId&) = default;
};

/// A sample of an epoch of streams: number `output` (from 0) of the samples made from record `input` of shard
/// `shard`.
struct StreamId {
  ShardId shard;
  std::int64_t input = 0;
  std::int64_t output = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): the zero that it sees is the compiler's
  friend auto operator<=>(const StreamId&, const StreamId&) = default;
};

/// "shard:input:output", such as "3:1041:0". `parse_stream_id` does the reverse, and throws
/// Error{invalid_argument} for other text.
std::string to_string(const StreamId& id);
StreamId parse_stream_id(std::string_view text);

/// The limit of all counts: samples of a dataset, epochs, steps. Adding one never overflows.
inline constexpr std::int64_t kMaxCount = std::int64_t{1} << 62;

/// The most logical shards of a run. Each takes 16 to 100 bytes of memory and state.
inline constexpr std::int64_t kMaxShards = std::int64_t{1} << 24;
/// The most slots of a global batch.
inline constexpr std::int64_t kMaxBatchSize = (std::int64_t{1} << 31) - 1;

/// Of options that count epochs: no last one.
inline constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();

/// How far a run has come. The whole state of the order is in these integers, the same on every rank.
struct Position {
  std::int64_t epoch = 0;  ///< passes over the dataset that are complete
  /// Samples of this epoch already delivered: 0 to N. Of streams always 0: their cursors say it.
  std::int64_t consumed = 0;
  std::int64_t step = 0;  ///< global batches delivered since the run began

  /// Whether all three are 0 to kMaxCount.
  [[nodiscard]] constexpr bool is_countable() const noexcept {
    const auto is_count = [](std::int64_t n) { return n >= 0 && n <= kMaxCount; };
    return is_count(epoch) && is_count(consumed) && is_count(step);
  }
  friend bool operator==(const Position&, const Position&) = default;
};

/// How the samples of an epoch are ordered.
enum class Shuffle {
  none,    ///< dataset order, the shards taking turns
  within,  ///< shuffled inside each shard; a shard keeps its samples
  global,  ///< all samples shuffled; shards get new samples each epoch
  block,   ///< blocks of neighbours shuffled, and mixed inside a window of several blocks
};

/// The shape of Shuffle::block. Blocks of `samples` neighbours are shuffled as wholes. Then samples are
/// shuffled inside windows of `blocks` such blocks. Both are at least 1; 0 samples are a unit of
/// the source. Part of the order.
struct BlockShape {
  std::int64_t samples = 256;
  std::int64_t blocks = 16;
  friend bool operator==(const BlockShape&, const BlockShape&) = default;
};

/// What happens at the end of an epoch when the batch size does not divide it.
enum class Tail {
  partial,  ///< a short last batch
  carry,    ///< the batch goes on into the next epoch; the last epoch ends short
  drop,     ///< the short last batch is left out
  pad,      ///< the epoch's first samples are repeated, marked by a mask
};

/// How a batch is divided among ranks, or among the workers of a rank.
enum class Split {
  by_sample,    ///< equal, consecutive slices; their sizes differ by at most one
  by_shard,     ///< whole shards, each always to the same one; sizes differ as the shards do
  interleaved,  ///< slot i to number i modulo their number; their sizes differ by at most one
  balanced,     ///< of ranks alone: so that all have as much to do, as Balance says
};

/// The kind of a slot of a batch.
enum class SlotKind : std::uint8_t {
  sample = 0,   ///< a sample of the epoch
  pad = 1,      ///< a repeated sample that fills up the last batch; not counted
  skipped = 2,  ///< a sample of the epoch that is bad, see BadSamples, or left out, see Stage; counted
};

/// When a mixture ends. A dataset is exhausted after LoaderOptions::epochs passes over it. If the mixture
/// goes on, the dataset begins anew. Datasets of weight 0 do not count.
enum class MixtureEnd {
  first_exhausted,  ///< with the last sample of the first exhausted dataset
  all_exhausted,    ///< with the last sample of the last dataset
  steps,            ///< after Mixture::steps steps
};

/// The state of a mixture besides its Position. That position stays in epoch 0, and counts the samples of the
/// run.
struct MixtureState {
  std::vector<std::int64_t> weights = {};  ///< quantised: of each sum(weights) samples, weights[d] are of d
  std::int64_t changed_at = 0;             ///< samples of the run before weights were last set
  std::vector<std::int64_t> counts = {};   ///< samples of each dataset before changed_at
  friend bool operator==(const MixtureState&, const MixtureState&) = default;
};

/// The name as written in the enumeration; "unknown" for a value that has none.
std::string_view to_string(Shuffle shuffle) noexcept;
std::string_view to_string(Tail tail) noexcept;
std::string_view to_string(Split split) noexcept;

/// The value named by `text`. Throws Error{invalid_argument} that lists the valid names.
Shuffle parse_shuffle(std::string_view text);
Tail parse_tail(std::string_view text);
Split parse_split(std::string_view text);

/// Where part `part` begins when `total` items are divided into `parts` in order: floor(part x total /
/// parts). Sizes differ by at most one. Part `parts` begins at the end.
constexpr std::int64_t share(std::int64_t total, std::int64_t part, std::int64_t parts) noexcept {
  // Split so that the product stays below parts^2, whatever the total.
  return total / parts * part + total % parts * part / parts;
}

}  // namespace rota
