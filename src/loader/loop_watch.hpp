#pragma once

#include <array>
#include <optional>
#include <utility>

#include "core/read_tally.hpp"
#include "rota/stats.hpp"

namespace rota::internal {

/// What a loader's caller waits for, call by call of next(), and is given.
class LoopWatch {
 public:
  /// next() was called.
  void begin() {
    if (const auto ended = std::exchange(ended_, std::nullopt)) stats_.steps.add(seconds_since(*ended));
    begun_ = ReadClock::now();
  }
  /// It returns; it has waited so long.
  double end() {
    ended_ = ReadClock::now();
    const double waited = std::chrono::duration<double>(*ended_ - begun_).count();
    stats_.waits.add(waited);
    return waited;
  }
  /// With a batch that came about so.
  void end(BatchTimes& times, std::int64_t samples, std::size_t bytes) {
    constexpr std::int64_t kBatches = 50;
    times.wait_seconds = end();
    if (stats_.batches % kBatches == 0) slowest_[1] = std::exchange(slowest_[0], {});
    if (times.slowest_seconds >= slowest_[0].slowest_seconds) slowest_[0] = times;
    ++stats_.batches;
    stats_.samples += samples;
    stats_.bytes += static_cast<std::int64_t>(bytes);
  }
  /// As LoaderStats has it, as far as it is known here.
  [[nodiscard]] LoaderStats stats() const {
    LoaderStats stats = stats_;
    stats.slowest = slowest_[slowest_[0].slowest_seconds >= slowest_[1].slowest_seconds ? 0 : 1];
    stats.disk_bytes = bytes_from_disk() - disk_bytes_before_;
    return stats;
  }

 private:
  LoaderStats stats_;
  ReadClock::time_point begun_;
  std::optional<ReadClock::time_point> ended_;
  std::array<BatchTimes, 2> slowest_;  // of these fifty batches, and of the fifty before
  std::int64_t disk_bytes_before_ = bytes_from_disk();
};

}  // namespace rota::internal
