#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "rota/loader.hpp"
#include "rota/order.hpp"
#include "rota/schedule.hpp"

namespace rota::internal {

/// Which samples a rank has in a batch.
struct Slots {
  GlobalBatch global;
  std::int64_t first = 0;  // slot of the global batch
  std::vector<SampleId> ids;
  std::vector<Mark> marks;
  std::vector<std::int64_t> epochs;
};

/// Finds out which samples a rank has in each batch. One thread at a time.
class Planner {
 public:
  Planner(Order order, const LoaderOptions& options, World world)
      : schedule_(std::move(order), options.tail, options.epochs),
        global_batch_size_(options.global_batch_size),
        world_(world) {}

  [[nodiscard]] const Order& order() const noexcept { return schedule_.order(); }
  /// From here on, for another world or batch size.
  void rescale(World world) noexcept { world_ = world; }
  void set_global_batch_size(std::int64_t size) noexcept { global_batch_size_ = size; }

  /// This rank's part of the batch at `at`; false at the end of the run.
  bool plan(const Position& at, Slots& out);

 private:
  Schedule schedule_;
  std::int64_t global_batch_size_;
  World world_;
  std::optional<EpochOrder> epoch_;
  std::vector<Span> spans_;
};

}  // namespace rota::internal
