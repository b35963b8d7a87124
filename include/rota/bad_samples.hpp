#pragma once

// Samples that cannot be used, and reads that fail: what a loader does about them, and what it tells of them.
// Next: loader_stats.hpp.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "rota/types.hpp"

namespace rota {

namespace mpi {
class Communicator;
}

/// What a loader does with a bad sample.
enum class OnBadSample {
  fail,  ///< `next()` throws
  skip,  ///< its place in the batch stays, marked Mark::skipped
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
  /// Error{corrupt}: on all ranks of `comm`, at the same step, the one after. Not below 0; the same on all
  /// ranks.
  std::int64_t max_skipped = 1000;
  /// Of OnBadSample::skip: the ranks that count together, one for each place in the loader's world. It is
  /// duplicated when the loader is made, which is then **collective** over it, as `next()` is. Null: this
  /// process counts what it skips itself.
  const mpi::Communicator* comm = nullptr;
  /// How long `next()` waits for another rank of `comm`. When it is over, it throws Error{timeout} that names
  /// the missing ranks. It must exceed the longest time between two steps of any rank; 0: wait for ever.
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
  std::int64_t here = 0;
  /// In order of delivery: this rank's part of what a restored checkpoint lists, then what it skipped itself,
  /// until the list has 1,000 entries. The lists of all ranks together are that of the run.
  std::vector<SkippedSample> samples = {};
};

}  // namespace rota
