#pragma once

#include <optional>
#include <utility>

#include "core/read_tally.hpp"
#include "rota/stats.hpp"

namespace rota::internal {

/// What a loader's caller waits for, call by call of next().
class LoopWatch {
 public:
  /// next() was called.
  void begin(LoaderStats& stats) {
    if (const auto ended = std::exchange(ended_, std::nullopt)) stats.steps.add(seconds_since(*ended));
    begun_ = ReadClock::now();
  }
  /// It returns; it has waited so long.
  double end(LoaderStats& stats) {
    ended_ = ReadClock::now();
    const double waited = std::chrono::duration<double>(*ended_ - begun_).count();
    stats.waits.add(waited);
    return waited;
  }
  /// With this batch.
  void see(const BatchTimes& times) {
    constexpr int kBatches = 100;
    if (++age_ < kBatches && times.slowest_seconds <= slowest_.slowest_seconds) return;
    slowest_ = times;
    age_ = 0;
  }
  /// As LoaderStats has it.
  [[nodiscard]] const BatchTimes& slowest() const noexcept { return slowest_; }

 private:
  ReadClock::time_point begun_;
  std::optional<ReadClock::time_point> ended_;
  BatchTimes slowest_;
  int age_ = 0;  // batches since then
};

}  // namespace rota::internal
