#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "loader/batch_memory.hpp"
#include "loader/planner.hpp"
#include "rota/loader.hpp"

namespace rota::internal {

/// What one thread needs to make its part of a batch: memory for the source's fields where a transform makes
/// others.
struct Scratch {
  std::optional<FieldStore> store;
  std::vector<std::span<std::byte>> in;
  std::vector<std::span<std::byte>> out;
};

/// Makes batches in steps that a ring of threads can share out: `plan` (one thread at a time), `size` part by
/// part, (where `has_sizes`), the store opened once, `fill` part by part. Steps of different batches may
/// overlap.
class BatchMaker {
 public:
  BatchMaker(std::shared_ptr<const Source> source, const Recipe& recipe, const LoaderOptions& options,
             World world);

  [[nodiscard]] const std::shared_ptr<BatchPool>& pool() const noexcept { return pool_; }
  [[nodiscard]] Scratch make_scratch() const;
  /// Whether `size` must be called: some field of the batch is ragged.
  [[nodiscard]] bool has_sizes() const noexcept { return has_sizes_; }

  /// From here on, for another world, batch size, or mixture. No batch may be in the making.
  void rescale(World world) noexcept { planner_.rescale(world); }
  void set_global_batch_size(std::int64_t size) noexcept { planner_.set_global_batch_size(size); }
  void mix(const Recipe& recipe, const LoaderOptions& options) { planner_.mix(recipe, options); }

  /// Which samples this rank has in the batch at `at`; false at the end of the run.
  bool plan(const Position& at, BatchMemory& out);
  void size(BatchMemory& batch, Part part) const;
  /// Reads and transforms, and adds what was done to `stats`, of which only the caller's thread may write.
  void fill(BatchMemory& batch, Part part, Scratch& scratch, WorkerStats& stats) const;

 private:
  void fill(BatchMemory& batch, Part part, Scratch& scratch) const;
  template <typename Work>
  void by_name(std::string_view verb, std::span<const SampleId> ids, const Work& work) const;
  [[nodiscard]] static std::span<const SampleId> ids(const BatchMemory& batch, Part part) noexcept;
  void read(std::span<const SampleId> ids, const BatchView& out) const;
  void transform(const BatchMemory& batch, std::size_t slot, const BatchView& in, std::size_t i,
                 Scratch& scratch) const;
  void read_sizes(std::span<const SampleId> ids, FieldStore& store, std::size_t begin) const;
  [[nodiscard]] std::string name(SampleId id) const;

  std::shared_ptr<const Source> source_;
  Transform transform_;
  std::uint64_t seed_;
  std::shared_ptr<BatchPool> pool_;
  bool has_sizes_;
  std::shared_ptr<const std::vector<Field>> source_fields_;
  Planner planner_;  // used by plan alone
};

}  // namespace rota::internal
