#pragma once

// What a worker has done, as statistics have it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "core/read_tally.hpp"
#include "rota/stats.hpp"

namespace rota::internal {

/// A worker has waited so long for that; the longest wait counts.
inline void note_wait(BatchTimes& times, std::string_view what, double seconds) {
  if (seconds <= times.slowest_seconds) return;
  times.slowest_seconds = seconds;
  times.slowest = what;
}

/// What this thread has done since this was made. One at a time.
struct WorkDone {
  std::int64_t samples = 0;
  std::int64_t bytes = 0;
  BatchTimes times = {};
  ReadTally& tally = ReadTally::here();
  std::int64_t stored_before = tally.stored_bytes;
  ReadClock::time_point begun = {};  ///< of the last read

  void begin_read() noexcept {
    tally.longest = 0;
    begun = ReadClock::now();
  }
  /// `name`, if given, says what the thread has waited for where no file took long, and yet the whole did.
  template <typename Name = std::nullptr_t>
  void end_read(Name name = nullptr) {
    const double took = seconds_since(begun);
    times.read_seconds += took;
    if constexpr (!std::is_null_pointer_v<Name>) {
      if (tally.longest == 0) tally.add(took, name);
    }
    note_wait(times, tally.file(), tally.longest);
  }

  void add_to(LoaderStats::Worker& worker) const {
    worker.samples += samples;
    worker.bytes += bytes;
    worker.stored_bytes += tally.stored_bytes - stored_before;
    if (times.read_seconds > 0) worker.reads.add(times.read_seconds);
    if (times.transform_seconds > 0) worker.transforms.add(times.transform_seconds);
  }
  /// As one of the workers that make a batch.
  void add_to(BatchTimes& batch) const {
    batch.read_seconds = std::max(batch.read_seconds, times.read_seconds);
    batch.transform_seconds = std::max(batch.transform_seconds, times.transform_seconds);
    note_wait(batch, times.slowest, times.slowest_seconds);
  }
};

}  // namespace rota::internal
