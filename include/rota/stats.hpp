#pragma once

// The statistics of a loader: how long next() waits and for what, and which rank others wait for. Next:
// trace.hpp.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "rota/batch.hpp"

namespace rota {

class Communicator;

/// Any number of times, in 2 KiB: how many there were of which length, each within 6 %, from a
/// microsecond to 35 minutes. Longer ones count as that long. The buckets are those of Gil Tene's
/// HdrHistogram, eight to each power of two.
class Durations {
 public:
  void add(double seconds) noexcept;

  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  /// The sum of all. Exact.
  [[nodiscard]] double seconds() const noexcept { return seconds_; }
  /// The seconds that this share of them does not exceed, such as 0.99; of 1, the longest. 0 without any.
  [[nodiscard]] double quantile(double share) const noexcept;

 private:
  std::array<std::int64_t, 256> counts_{};
  std::int64_t count_ = 0;
  double seconds_ = 0;
};

/// The statistics of a loader since it was made; of datasets, of its run.
struct LoaderStats {
  /// Of a worker thread.
  struct Worker {
    std::int64_t samples = 0;
    std::int64_t bytes = 0;
    std::int64_t stored_bytes = 0;  ///< that it read of a Storage: S3, a web server, or your own
    Durations reads;       ///< in Source::read, one for each batch; of streams in ShardStream::next, by item
    Durations transforms;  ///< the same in the transform, and in `collate`; of streams none
  };
  /// Of a dataset, in the whole run so far, by all ranks; of a mixture each has epochs of its own.
  struct Dataset {
    std::string name = {};     ///< of a mixture's, if it has one
    std::int64_t samples = 0;  ///< handed out, or left out by the plan
    std::int64_t epochs = 0;   ///< that are complete
    std::int64_t tokens = 0;   ///< samples x RunPlan::tokens_per_sample; 0 where the plan has none
  };
  std::int64_t batches = 0;        ///< returned by next()
  std::int64_t samples = 0;        ///< slots in them
  std::int64_t skipped = 0;        ///< those of SlotKind::skipped
  std::int64_t bytes = 0;          ///< of their tensors
  Durations waits;                 ///< of next() for data, and for other ranks where it is collective
  Durations steps;                 ///< of the loop, from the end of a next() to the call of the following one
  BatchTimes slowest = {};         ///< that of the longest `slowest_seconds`, of the last 50 to 100 batches
  std::int64_t ready_batches = 0;  ///< complete, waiting for next(), now
  std::int64_t retries = 0;        ///< reads that were tried again after an I/O error
  /// That the kernel has brought from disks for this process, its read-ahead included, whoever asked for them
  /// (/proc/self/io); 0 where it does not tell. What was read and is neither here nor in
  /// `stored_bytes` came from the page cache, or from files in shared memory.
  std::int64_t disk_bytes = 0;
  /// Files, and bytes of them, that this rank has decompressed or copied into memory that its node shares
  /// (CatalogOptions::share_files).
  std::int64_t fetched_files = 0;
  std::int64_t fetched_bytes = 0;
  /// Chunks that this process has decoded, and how many the samples read amount to: each its part of a chunk.
  /// decodes / chunks is how often each was decoded.
  std::int64_t decodes = 0;
  std::int64_t chunks = 0;
  /// Under Settle::by_hand: samples that are out now, how many seconds the oldest is, and how many were given
  /// up, and dropped in the whole run, as far as is known here.
  std::int64_t open = 0;
  std::int64_t oldest_open = 0;
  std::int64_t given_up = 0;
  std::int64_t dropped = 0;
  std::vector<Worker> workers = {};
  std::vector<Dataset> datasets = {};  ///< by number; none of streams
};

/// What ranks differ in.
struct RankComparison {
  /// Seconds a batch, over all ranks.
  struct Spread {
    double least = 0;
    double median = 0;
    double most = 0;
    int rank = 0;  ///< that has the most
  };
  Spread wait;       ///< of next()
  Spread read;       ///< of a worker
  Spread transform;  ///< of a worker
  Spread step;       ///< of the loop, without next()
  /// "rank 3 waits for reads of data-0412.h5: 40 ms a batch, others 3 ms". Empty unless a rank waits 1 ms
  /// more than half of the others do, and twice as long.
  std::string straggler;
};

/// Compares what the ranks' loaders did since `before`, which each took at some step, the same for all.
/// **Collective.** Example: every 100 steps, `compare_ranks(comm, now = loader.stats(), before)`.
RankComparison compare_ranks(const Communicator& comm, const LoaderStats& now,
                             const LoaderStats& before = {});

}  // namespace rota
