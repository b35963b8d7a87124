#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string_view>
#include <vector>

#include "core/caught.hpp"
#include "loader/ahead.hpp"
#include "loader/batch_memory.hpp"
#include "loader/ordered_source.hpp"
#include "loader/work_done.hpp"
#include "order/planner.hpp"
#include "rota/loader.hpp"

namespace rota::internal {

/// What one thread needs to make its part of a batch: the instance of the source that it has for itself, if
/// any, and memory for the source's fields where a transform makes others.
struct Scratch {
  int worker = 0;
  std::shared_ptr<const Source> own;
  std::int64_t asked_in = -1;  // the number of the world in which it was asked for
  std::unique_ptr<FieldStore> store;
  std::vector<std::span<std::byte>> in;
  std::vector<std::span<std::byte>> out;
};

/// Makes batches in steps that a ring of threads can share out: `plan` (one thread at a time), `size` part by
/// part (where `has_sizes`), the store opened once, `fill` part by part, `finish` once (where `has_finish`).
/// Steps of different batches may overlap.
///
/// A read that fails with Error{io} is done again, sample by sample. A sample that is bad is passed over,
/// where the options have it so: its slot is marked, and filled with zeros.
class BatchMaker {
 public:
  /// `options` must outlive it; of them only the batch size may change.
  BatchMaker(OrderedSource ordered, const LoaderOptions& options, World world);

  /// Of batches.
  [[nodiscard]] const std::vector<Field>& fields() const noexcept { return *pool_->fields(); }
  /// Memory for a batch to be made.
  [[nodiscard]] std::unique_ptr<BatchMemory> take() { return sample_pool_->take(); }
  /// A batch that is made.
  [[nodiscard]] Batch wrap(std::unique_ptr<BatchMemory> batch) { return pool_->wrap(std::move(batch)); }
  [[nodiscard]] Scratch make_scratch(int worker) const;
  /// Whether `size` must be called: the source has ragged fields, which go into the batch.
  [[nodiscard]] bool has_sizes() const noexcept { return has_sizes_; }

  /// From here on, for a run that was changed, or another world. Pins nothing more. No batch may be in
  /// the making. In another world workers have other instances of the source.
  void plan_anew(World world, const Run& run);

  /// Which samples this rank has in the next batch of `run`, of the order that it was made with; false at
  /// the end.
  bool plan(const Run& run, BatchMemory& out);
  void size(BatchMemory& batch, SlotRange part, Scratch& scratch) const;
  /// Ends all waiting for another try: batches in the making are not wanted any more. Until `resume_retries`.
  void cut_retries_short() noexcept { retries_stop_.request_stop(); }
  /// Nobody may be waiting.
  void resume_retries() { retries_stop_ = std::stop_source(); }
  /// Reads that were done again.
  [[nodiscard]] std::int64_t retries() const noexcept { return retries_; }

  /// Reads and transforms, and adds to what was `done`.
  void fill(BatchMemory& batch, SlotRange part, Scratch& scratch, WorkDone& done) const;

  /// Bytes of the ragged rows that a worker has made of a batch.
  [[nodiscard]] std::int64_t made_bytes(const BatchMemory& batch, int worker) const noexcept {
    return makes_rows_ ? static_cast<std::int64_t>(batch.made[static_cast<std::size_t>(worker)].bytes()) : 0;
  }

  /// A sample for messages.
  [[nodiscard]] std::string name(SampleId id) const;

  /// Whether `finish` must be called: a transform makes ragged fields, or there is a Collate.
  [[nodiscard]] bool has_finish() const noexcept { return makes_rows_ || options_.collate.apply; }
  /// Gathers ragged fields that were made, and has the batch collated.
  void finish(std::unique_ptr<BatchMemory>& batch) const;

 private:
  [[nodiscard]] const Source& source(Scratch& scratch) const;
  template <typename Work>
  void by_sample(std::string_view verb, BatchMemory& batch, SlotRange part, const Work& work,
                 int tries = 0) const;
  [[nodiscard]] bool try_again(int tries) const;
  [[nodiscard]] SlotRange good_run(const BatchMemory& batch, SlotRange part) const noexcept;
  // Nothing is read of it.
  [[nodiscard]] static bool is_bad(const BatchMemory& batch, std::size_t slot) noexcept {
    return batch.has_gaps &&
           (batch.kinds[slot] == SlotKind::skipped || (!batch.bad.empty() && batch.bad[slot]));
  }
  [[nodiscard]] static bool is_of_sample(const Caught& error) noexcept;
  void skip(std::string_view verb, BatchMemory& batch, std::size_t slot, const Caught& error,
            bool can_be_bad) const;
  void blank(BatchMemory& batch, SlotRange part) const;
  [[nodiscard]] static std::span<const SampleId> ids(const BatchMemory& batch, SlotRange part) noexcept;
  BatchView read(BatchMemory& batch, SlotRange part, Scratch& scratch, WorkDone& done) const;
  std::size_t transform(BatchMemory& batch, SlotRange part, const BatchView& in, Scratch& scratch) const;
  void transform(BatchMemory& batch, std::size_t slot, Scratch& scratch, MadeRows* made) const;
  static void gather_rows(BatchMemory& batch);
  [[nodiscard]] std::unique_ptr<BatchMemory> collate(std::unique_ptr<BatchMemory> batch) const;
  void check_lengths(std::string_view field, std::span<const SampleId> ids,
                     std::span<const std::int64_t> rows) const;
  void read_sizes(const Source& source, BatchMemory& batch, SlotRange part, FieldStore& store,
                  std::size_t begin) const;

  std::shared_ptr<const Source> source_;
  std::shared_ptr<const RunOrder> order_;
  const LoaderOptions& options_;
  World world_;
  std::int64_t worlds_ = 0;                 // that it was rescaled to
  std::shared_ptr<BatchPool> sample_pool_;  // of batches as samples are read and transformed
  std::shared_ptr<BatchPool> pool_;         // of batches as they are handed out; the same without a Collate
  bool has_sizes_;
  bool makes_rows_;  // the transform makes ragged fields
  bool skips_;
  std::stop_source retries_stop_;
  mutable std::atomic<std::int64_t> retries_ = 0;
  std::shared_ptr<const std::vector<Field>> source_fields_;
  Planner planner_;             // used by plan alone, as is the next
  std::optional<Ahead> ahead_;  // anew in each world
};

}  // namespace rota::internal
