#pragma once

// What a worker has done, as statistics have it.

#include <algorithm>
#include <cstdint>
#include <string>

#include "core/read_tally.hpp"
#include "rota/stats.hpp"

namespace rota::internal {

/// A worker has waited so long for that; the longest wait counts.
inline void note_wait(BatchTimes& times, const std::string& what, double seconds) {
  if (seconds <= times.slowest_seconds) return;
  times.slowest_seconds = seconds;
  times.slowest = what;
}

/// What this thread has done since it was made.
struct WorkDone {
  std::int64_t samples = 0;
  std::int64_t bytes = 0;
  bool has_read = false;
  BatchTimes times = {};
  ReadTally& tally = ReadTally::here();
  std::int64_t stored_before = tally.stored_bytes;

  void add_to(LoaderStats::Worker& worker) const {
    worker.samples += samples;
    worker.bytes += bytes;
    worker.stored_bytes += tally.stored_bytes - stored_before;
    if (has_read) worker.reads.add(times.read_seconds);
    if (times.transform_seconds > 0) worker.transforms.add(times.transform_seconds);
  }
  /// As one of the workers that make a batch.
  void add_to(BatchTimes& batch) const {
    batch.read_seconds = std::max(batch.read_seconds, times.read_seconds);
    batch.transform_seconds = std::max(batch.transform_seconds, times.transform_seconds);
    note_wait(batch, times.slowest, times.slowest_seconds);
  }
};

/// Times what this thread reads from here on, for `done`. One at a time.
class ReadWatch {
 public:
  explicit ReadWatch(WorkDone& done) noexcept : done_(done) { done.tally.longest = 0; }
  /// It was read.
  void end() const { add(seconds_since(begun_)); }
  /// The same. Where no file took long, and yet the whole did, `name` says what that is.
  template <typename Name>
  void end(Name name) const {
    const double took = seconds_since(begun_);
    if (done_.tally.longest == 0) done_.tally.add(took, name);
    add(took);
  }

 private:
  void add(double took) const {
    done_.has_read = true;
    done_.times.read_seconds += took;
    note_wait(done_.times, done_.tally.file, done_.tally.longest);
  }

  WorkDone& done_;
  ReadClock::time_point begun_ = ReadClock::now();
};

}  // namespace rota::internal
