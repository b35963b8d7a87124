#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "core/mixture_schedule.hpp"
#include "loader/recipe.hpp"
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
  std::vector<std::int32_t> datasets;
};

/// Finds out which samples a rank has in each batch. One thread at a time.
class Planner {
 public:
  Planner(const Recipe& recipe, const LoaderOptions& options, World world);

  /// From here on, for another world, batch size, or mixture.
  void rescale(World world) noexcept { world_ = world; }
  void set_global_batch_size(std::int64_t size) noexcept { global_batch_size_ = size; }
  void mix(const Recipe& recipe, const LoaderOptions& options) { schedule_ = make_schedule(recipe, options); }

  /// This rank's part of the batch at `at`; false at the end of the run.
  bool plan(const Position& at, Slots& out);

 private:
  using AnySchedule = std::variant<Schedule, MixtureSchedule>;
  struct Dataset {
    Order order;
    std::int64_t first_id;
    std::optional<EpochOrder> epoch;  // the last that was looked at
  };
  static AnySchedule make_schedule(const Recipe& recipe, const LoaderOptions& options);

  AnySchedule schedule_;
  std::vector<Dataset> datasets_;
  std::int64_t global_batch_size_;
  World world_;
  std::vector<Span> spans_;
};

}  // namespace rota::internal
