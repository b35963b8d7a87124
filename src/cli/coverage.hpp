#pragma once

// Which samples an epoch has seen. Next: sample_auditor.cpp.

#include <cstdint>
#include <map>
#include <vector>

namespace rota::cli {

/// Samples that epochs [first_epoch, last_epoch] each lack.
struct Missing {
  std::int64_t first_epoch = 0;
  std::int64_t last_epoch = 0;
  std::int64_t count = 0;               ///< in each of them
  std::vector<std::int64_t> first_ids;  ///< the lowest few; empty where it is all of them
};

/// Ticks off the samples of each epoch: N / 8 bytes per open epoch. *One thread.*
class Coverage {
 public:
  explicit Coverage(std::int64_t samples) : samples_(samples) {}

  [[nodiscard]] bool is_closed(std::int64_t epoch) const noexcept { return epoch < open_from_; }
  /// Ticks off sample `id` in an open epoch; false where it was ticked off before.
  bool tick(std::int64_t epoch, std::int64_t id);
  /// Samples that were ticked off in it.
  [[nodiscard]] std::int64_t count(std::int64_t epoch) const;
  [[nodiscard]] bool has(std::int64_t epoch, std::int64_t id) const;
  /// Closes all epochs below `epoch`, and says which samples they lack.
  std::vector<Missing> close_before(std::int64_t epoch);

 private:
  struct Ticks {
    std::vector<bool> seen;
    std::int64_t count = 0;
  };
  [[nodiscard]] Missing missing(std::int64_t epoch, const Ticks& ticks) const;

  std::int64_t samples_;
  std::int64_t open_from_ = 0;
  std::map<std::int64_t, Ticks> epochs_;
};

}  // namespace rota::cli
