#pragma once

// What a loader is told: datasets and their weights, what to do about bad samples, all of its options; and
// what it tells of itself. Next: batch.hpp.

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rota/batch.hpp"
#include "rota/source.hpp"
#include "rota/transform.hpp"
#include "rota/types.hpp"

namespace rota {

/// One dataset of a mixture.
struct WeightedSource {
  std::shared_ptr<const Source> source = nullptr;
  double weight = 1;  ///< of its samples among those of all; 0: none of them
};

/// Datasets with the same fields that take turns by weight.
///
/// Each goes through epochs of its own, cut into LoaderOptions::shards shards of its own. Which of them has a
/// turn depends on nothing but the weights: of n samples since they were set, dataset d has had n w_d /
/// (w_0 + ... + w_last), give or take less than one, where w are quantised weights. The order in a batch is
/// (dataset, epoch, shard, position). Under Tail::pad, samples that would come next fill up the last one.
struct Mixture {
  std::vector<WeightedSource> datasets = {};
  MixtureEnd end = MixtureEnd::first_exhausted;
  std::int64_t steps = 0;  ///< of the run, where it ends by them

  /// Throws Error{invalid_argument} for a dataset that is null or empty, unless there are 1 to 4,096 with
  /// weights of a finite sum, none below 0 and one above, for `steps` without MixtureEnd::steps or the other
  /// way round, and for an `end` that there is not.
  void validate() const;
};

/// What a loader does with a bad sample.
enum class OnBadSample {
  fail,  ///< `next()` throws
  skip,  ///< its place in the batch stays, marked SlotKind::skipped
};

/// What a loader does about samples that cannot be used. *Bad* is a sample of which Source::rows or read
/// throws Error{corrupt}, or for which the transform throws anything but Error{io} and std::bad_alloc. Every
/// other error leaves `next()`, whatever the policy; Error{io} of the source once it was tried again.
struct BadSamples {
  /// The same on all ranks. A skipped sample counts as consumed. Its bytes are 0; its ragged fields have as
  /// many rows as the source said, or none where that could not be found out. One that only pads a batch
  /// stays marked as padding, and is neither counted nor listed.
  OnBadSample policy = OnBadSample::fail;
  /// Of OnBadSample::skip: once more than so many are skipped in the whole run, `next()` throws
  /// Error{corrupt}. Ranks that make their loaders together (Loader(comm, ...)) count together: all throw at
  /// the same step, the one after. Otherwise each process counts what it skips itself. Not below 0.
  std::int64_t max_skipped = 1000;
  /// How long `next()` waits for another rank that counts with this one. When it is over, it throws
  /// Error{timeout} that names the missing ranks. It must exceed the longest time between two steps of any
  /// rank; 0: wait for ever.
  std::chrono::milliseconds deadline = std::chrono::minutes(10);
  /// A read of the source that throws Error{io} is done again, sample by sample, up to so many times; 0 to
  /// 100.
  int io_retries = 2;
  /// Before the first of them, and before each further one twice as long, at most 1,024 times as long; up to
  /// a day. Cut short where the batch is not wanted any more.
  std::chrono::milliseconds retry_wait{10};

  /// Throws Error{invalid_argument} naming the option, its value and what it may be.
  void validate() const;
};

/// A sample that was passed over.
struct SkippedSample {
  std::int64_t epoch = 0;
  SampleId id = {};
  std::string where = {};  ///< as Source::where says
  std::string error = {};  ///< what failed (size, read or transform), and how; at most 1,000 bytes of it
  friend bool operator==(const SkippedSample&, const SkippedSample&) = default;
};

/// What was passed over in batches that were handed out; what is only read ahead does not count.
struct SkippedSamples {
  /// In the whole run, by all ranks that count together, before all checkpoints on the way as well. What
  /// other ranks skipped in the last step is known after the next.
  std::int64_t count = 0;
  /// By this rank, since the loader was made or restored.
  std::int64_t by_this_rank = 0;
  /// In order of delivery: this rank's part of what a restored checkpoint lists, then what it skipped itself,
  /// until the list has 1,000 entries. The lists of all ranks together are that of the run.
  std::vector<SkippedSample> samples = {};
};

/// No last epoch.
inline constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();

/// What a loader is to do. The dataset, `shards`, `interleave`, `shuffle`, `seed` and `block` define the
/// order, and must be the same on resume; all else is free to change then, the world included.
struct LoaderOptions {
  std::int64_t global_batch_size = 32;  ///< B: samples per step over all ranks together; 1 to 2^31 - 1
  /// L: logical shards. It does not limit ranks or workers. More of them mix better under Shuffle::none and
  /// within, fewer read more in sequence. Fixed for a run. 1 to 2^24, those of all datasets of a mixture
  /// together.
  std::int64_t shards = 256;
  std::int64_t interleave = 0;  ///< G: shards consumed at a time; 0 = all
  Shuffle shuffle = Shuffle::global;
  std::uint64_t seed = 0;
  BlockShape block = {};  ///< of Shuffle::block
  Tail tail = Tail::partial;
  /// Which rank reads what of a batch. Under by_shard, shard s goes to rank s % R, and ranks without a shard
  /// in a batch have none of its samples; have several shards for each rank.
  Split rank_split = Split::by_sample;
  /// The same for the workers of a rank, whose parts of its batch are then side by side (by_sample), or dealt
  /// out in turn (interleaved), each sample a read of its own. Under by_shard, shard s goes to worker s % W,
  /// or to s / R % W where ranks are split by shard, too.
  Split worker_split = Split::by_sample;
  std::int64_t epochs = 1;  ///< passes over the dataset, or kEndless
  int workers = 1;  ///< reading threads of this rank, up to 4,096; 0 = the caller's own, inside next()
  std::int64_t read_ahead_batches = 4;  ///< at most this many batches in work or ready; 1 to 65,536
  /// And this many bytes, or one batch if it is larger. The memory of all tensors, without batches that the
  /// caller keeps, stays under 5/4 of it and of five batches. A batch whose size a transform or `collate`
  /// decides counts as the largest before it until it is made; while it is made, it is in memory twice.
  std::int64_t read_ahead_bytes = std::int64_t{256} << 20;
  Transform transform = {};  ///< of every sample
  Collate collate = {};      ///< of every batch of this rank, after the transform
  Allocator allocator = {};
  BadSamples bad_samples = {};

  /// Throws Error{invalid_argument} naming the option, its value and what it may be.
  void validate() const;
};

/// What one worker thread has done.
struct WorkerStats {
  std::int64_t samples = 0;
  std::int64_t bytes = 0;
  double read_seconds = 0;  ///< in Source::read and the transform
};

/// What a loader has done since it was made.
struct LoaderStats {
  std::int64_t batches = 0;        ///< handed out
  std::int64_t samples = 0;        ///< slots in them
  std::int64_t skipped = 0;        ///< those of SlotKind::skipped
  std::int64_t bytes = 0;          ///< of their tensors
  double wait_seconds = 0;         ///< in which next() had to wait for data
  std::int64_t ready_batches = 0;  ///< complete and waiting to be handed out, now
  std::int64_t retries = 0;        ///< reads that were done again after an I/O error
  Fetched fetched = {};  ///< by this rank into memory that its node shares (CatalogOptions::share_files)
  std::vector<WorkerStats> workers = {};
};

}  // namespace rota
