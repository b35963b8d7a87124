#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/mutex.hpp"
#include "loader/field_store.hpp"
#include "loader/made_rows.hpp"
#include "loader/worker_parts.hpp"
#include "rota/batch.hpp"
#include "rota/loader_options.hpp"
#include "rota/run.hpp"

namespace rota::internal {

/// What is behind a Batch: which samples, and their tensors.
struct BatchMemory : RunSlice {
  BatchMemory(std::shared_ptr<const std::vector<Field>> fields, std::shared_ptr<BufferPool> buffers)
      : store(std::move(fields), std::move(buffers)) {}

  /// Says how many samples of streams there are. Of those a slice has only the position, kinds and epochs.
  void resize_streams(std::size_t samples) {
    is_stream = true;
    stream_ids.resize(samples);
    positions.resize(samples);
    store.resize(samples);
  }
  /// Lets go all that it keeps while it is in use.
  void close() noexcept {
    store.close();
    times = {};
    for (MadeRows& rows : made) rows.close();
    pins.clear();
  }

  std::vector<std::vector<SlotRange>> parts;  ///< of each worker; of the caller, where there are none
  FieldStore store;
  BatchTimes times;
  /// Where a transform makes ragged fields: its rows, by worker, until all of them are made.
  std::vector<MadeRows> made;
  /// Keeps what is read for it in shared memory, until it is handed over.
  std::vector<std::shared_ptr<const void>> pins;
  /// What is bad, and why: [size] where bad samples may be skipped, else empty. A slot belongs to one thread
  /// at a time.
  std::vector<std::unique_ptr<const SkippedSamples::Sample>> bad;
  int skippers = 0;       ///< ranks that may skip some
  bool has_gaps = false;  ///< some may be bad, or left out
  bool is_stream = false;
  std::vector<StreamId> stream_ids;
  std::vector<std::int64_t> positions;
};

/// What is behind batches that are not in use, kept for the next ones; the memory of their tensors goes back
/// to a BufferPool meanwhile. It outlives the loader as long as a batch does. Any thread.
class BatchPool : public std::enable_shared_from_this<BatchPool> {
 public:
  /// Keeps at most `capacity` unused ones, and buffers as the BufferPool does.
  BatchPool(std::vector<Field> fields, Allocator allocator, std::size_t capacity, std::int64_t most_bytes)
      : fields_(std::make_shared<const std::vector<Field>>(std::move(fields))),
        buffers_(std::make_shared<BufferPool>(std::move(allocator), most_bytes)),
        capacity_(capacity) {
    unused_.reserve(capacity);
  }

  [[nodiscard]] const std::shared_ptr<const std::vector<Field>>& fields() const noexcept { return fields_; }
  [[nodiscard]] std::unique_ptr<BatchMemory> take();
  void give_back(std::unique_ptr<BatchMemory> memory) noexcept;
  [[nodiscard]] static const BatchMemory& memory_of(const Batch& batch) { return batch.memory(); }
  /// A Batch that gives `memory` back here.
  [[nodiscard]] Batch wrap(std::unique_ptr<BatchMemory> memory) {
    return {std::move(memory), shared_from_this()};
  }

 private:
  std::shared_ptr<const std::vector<Field>> fields_;
  std::shared_ptr<BufferPool> buffers_;
  std::size_t capacity_;
  Mutex mutex_;
  std::vector<std::unique_ptr<BatchMemory>> unused_ ROTA_GUARDED_BY(mutex_);  // reserved to capacity_
};

}  // namespace rota::internal
