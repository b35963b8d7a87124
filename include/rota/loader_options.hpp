#pragma once

// The options of a loader: mixtures, bad samples and all others. Next: batch.hpp.

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rota/balance.hpp"
#include "rota/batch.hpp"
#include "rota/run.hpp"
#include "rota/source.hpp"
#include "rota/transform.hpp"
#include "rota/types.hpp"

namespace rota {

/// Datasets with the same fields that take turns by weight.
///
/// Each has epochs of its own, and LoaderOptions::shards shards of its own. Which dataset has a turn depends
/// only on the weights, which are quantised to w. Of n samples since they were set, dataset d has n w_d /
/// (w_0 + ... + w_last), within one sample. The order in a batch is (dataset, epoch, shard, position). Under
/// Tail::pad, the samples that would come next fill up the last batch.
struct Mixture {
  /// One dataset of a mixture.
  struct Part {
    std::shared_ptr<const Source> source = nullptr;
    double weight = 1;      ///< its share of the samples, relative to the other weights; 0: none
    std::string name = {};  ///< for plans and messages; empty, or another than those of the others
  };
  std::vector<Part> datasets = {};
  MixtureEnd end = MixtureEnd::first_exhausted;
  std::int64_t steps = 0;  ///< of the run, under MixtureEnd::steps
  /// At a resume, datasets with names may have more samples behind those that they had, which must be the
  /// same. What is new is a dataset of its own: "web@1000" has the samples of "web" from number 1,000 on,
  /// with a number, ids and epochs of its own, and by size its part of the weight.
  bool grown = false;

  /// Throws Error{invalid_argument} for a null or empty dataset, an invalid `end`, and unless
  /// - there are 1 to 4,096 datasets,
  /// - weights are 0 or more, at least one above, with a finite sum,
  /// - `steps` is set under MixtureEnd::steps, and only then,
  /// - names are all set, each another, or none; for `grown` they are set, and have no "@".
  void validate() const;
  /// Of the datasets.
  [[nodiscard]] std::vector<std::string> names() const;
};

/// What a loader does about bad samples. A sample is *bad* where Source::rows or read throws Error{corrupt}
/// or Error{not_found} for it, or where the transform throws anything but Error{io}, std::bad_alloc, and what
/// programs do wrong: Error{mismatch}, Error{out_of_range}, Error{invalid_argument}. All other errors leave
/// `next()` under any policy; Error{io} of the source does so after retries.
struct BadSamples {
  /// What a loader does with a bad sample.
  enum class Policy {
    fail,  ///< `next()` throws
    skip,  ///< its slot stays, marked SlotKind::skipped
  };
  /// The same on all ranks. A skipped sample counts as consumed. Its bytes are 0. Its ragged fields have as
  /// many rows as the source said, or none if that failed. A bad sample of padding stays padding: neither
  /// counted nor listed.
  Policy policy = Policy::fail;
  /// Under Policy::skip: `next()` throws Error{corrupt} once the whole run has skipped more, or 100
  /// before the first good one since the loader was made or restored. Ranks that
  /// made their loaders together count together: all throw at the same step, the one after. Otherwise each
  /// process counts alone. Not below 0.
  std::int64_t max_skipped = 1000;
  /// How often a read that throws Error{io} is tried again, sample by sample; 0 to 100.
  int io_retries = 2;
  /// The wait before the first retry, up to a day. It doubles for each further one, up to 1,024 times as
  /// long. Cut short if the batch is dropped.
  std::chrono::milliseconds retry_wait{10};

  /// Throws Error{invalid_argument} naming the option, its value and what it may be.
  void validate() const;
};

/// The skipped samples of batches that `next()` returned; batches that were read ahead do not count.
struct SkippedSamples {
  /// A skipped sample.
  struct Sample {
    std::int64_t epoch = 0;
    SampleId id = {};
    std::string where = {};  ///< as Source::where says
    std::string error = {};  ///< what failed (size, read or transform), and how; at most 1,000 bytes
    friend bool operator==(const Sample&, const Sample&) = default;
  };
  /// In the whole run, restarts included, by all ranks that count together. Other ranks' last step is known
  /// one step later.
  std::int64_t count = 0;
  /// By this rank, since the loader was made or restored.
  std::int64_t by_this_rank = 0;
  /// In order of delivery: this rank's part of a restored list, then its own, up to 1,000 entries. The lists
  /// of all ranks together are the run's.
  std::vector<Sample> samples = {};
};

/// The samples that LoaderOptions::settle says: dropped, so that they do not come again in their epoch.
struct DroppedSamples {
  std::map<std::string, std::int64_t> counts = {};  ///< by reason, in the whole run as far as is known here
  /// This rank's part of the list of a restored checkpoint, then its own, up to 1,000; the reason is their
  /// `error`. The lists of all ranks together are the run's.
  std::vector<SkippedSamples::Sample> samples = {};
};

/// When a sample counts as trained.
enum class Settle {
  at_delivery,  ///< when `next()` returns it
  by_hand,      ///< when the program says so: Loader::settle
};

/// Of LoaderOptions::shards: each part of the source is one, such as a file.
inline constexpr std::int64_t kFileShards = std::numeric_limits<std::int64_t>::min();
/// Of LoaderOptions::shards: each unit of compression of the source is one, such as a chunk.
inline constexpr std::int64_t kUnitShards = kFileShards + 1;

/// The options of a Loader. The dataset, `shards`, `interleave`, `shuffle`, `seed` and `block` define the
/// order: they must be the same on resume. All others may change, and so may the world.
struct LoaderOptions {
  std::int64_t global_batch_size = 32;  ///< B: samples per step over all ranks together; 1 to 2^31 - 1
  /// L: logical shards. It limits neither ranks nor workers. More of them mix better under Shuffle::none and
  /// within; fewer read more in sequence. Fixed for a run. 1 to 2^24, summed over the datasets of a mixture.
  /// 0: 1 under Shuffle::none, so that this is the dataset's order, unless shards are asked for: by
  /// `interleave`, by Split::by_shard, or by shared files; else 256. `Loader::options` has the number.
  /// kFileShards: the parts of the source (Source::part_sizes); kUnitShards: its units (Source::unit_sizes).
  /// Neither of a mixture.
  std::int64_t shards = 0;
  std::int64_t interleave = 0;  ///< G: shards consumed at a time; 0: all
  Shuffle shuffle = Shuffle::global;
  std::uint64_t seed = 0;
  /// Of Shuffle::block. Of 0 samples: blocks are the source's units (Source::unit_sizes), so that each is
  /// decoded once.
  BlockShape block = {};
  Tail tail = Tail::partial;
  /// Which rank reads which slots of a batch. Under by_shard, shard s goes to rank s % R. A rank without a
  /// shard in a batch has none of its samples: use several shards for each rank.
  Split rank_split = Split::by_sample;
  Balance balance = {};  ///< of Split::balanced
  /// The same for the workers of a rank. Under by_sample their parts lie side by side in the batch. Under
  /// interleaved slots go to workers in turn, and each sample is a read of its own. Under by_shard, shard s
  /// goes to worker s % W, or to s / R % W where ranks are also split by shard.
  Split worker_split = Split::by_sample;
  std::int64_t epochs = 1;  ///< passes over the dataset, or kEndless
  /// What the run changes on its way. May be another on resume, but not of steps that are past; a state has
  /// its own, by which a loader without one goes on. Not of `evaluation`.
  RunPlan plan = {};
  /// For validation: each `for` over the loader begins at the first sample, whatever was left before, and
  /// gives each once. Such a loader has no state. It has one epoch, Tail::partial or pad, and no mixture.
  bool evaluation = false;
  Settle settle = Settle::at_delivery;
  /// Under Settle::by_hand: `next()` waits while so many samples of this rank, or more, are out: handed out,
  /// and not settled, dropped or given up. Up to `deadline`; it then throws Error{timeout}, and names the
  /// oldest.
  std::int64_t open_limit = 16'384;
  int workers = 1;  ///< reading threads of this rank, up to 4,096; 0: the caller's, inside next()
  std::int64_t read_ahead_batches = 4;  ///< at most this many batches in work or ready; 1 to 65,536
  /// And this many bytes, or one batch if that is larger. All tensors stay under 5/4 of it and of five
  /// batches, without batches that the caller keeps. If a transform or `collate` decides a batch's size, the
  /// batch counts as the largest before it until it is made. While it is made, it is in memory twice.
  std::int64_t read_ahead_bytes = std::int64_t{256} << 20;
  /// How long `next()` waits for a rank that counts bad samples with this one. Then it throws Error{timeout}
  /// naming the missing ranks. It must exceed the longest time between two steps of any rank. 0: wait for
  /// ever.
  std::chrono::milliseconds deadline = std::chrono::minutes(10);
  /// Each time that `next()` has waited so long for the workers, it says what they are reading: a file system
  /// that hangs ends no read. Up to a day; 0: never. Without workers nobody is there to say it.
  std::chrono::milliseconds slow_after = std::chrono::minutes(1);
  /// What it says that to, by the caller's thread; nothing: the process's MessageSink. It must not throw.
  std::function<void(const std::string& message)> on_slow = {};
  Transform transform = {};  ///< of every sample
  Collate collate = {};      ///< of every batch of this rank, after the transform
  Allocator allocator = {};
  BadSamples bad_samples = {};

  /// Those that a Run has.
  [[nodiscard]] RunOptions run() const;
  /// Throws Error{invalid_argument} naming the option, its value and what it may be.
  void validate() const;
};

}  // namespace rota
