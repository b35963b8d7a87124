#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "loader/field_store.hpp"
#include "loader/made_rows.hpp"
#include "loader/memory_pool.hpp"
#include "loader/planner.hpp"
#include "rota/batch.hpp"

namespace rota::internal {

/// Why the sample of a slot is passed over.
struct BadSlot {
  std::string where;
  std::string error;
};

/// What is behind a Batch: which samples, and their tensors.
struct BatchMemory : Slots {
  BatchMemory(std::shared_ptr<const std::vector<Field>> fields, std::shared_ptr<BufferPool> buffers)
      : store(std::move(fields), std::move(buffers)) {}

  /// Lets go all that it keeps while it is in use.
  void close() noexcept {
    store.close();
    for (MadeRows& rows : made) rows.close();
    pins.clear();
  }

  FieldStore store;
  /// Where a transform makes ragged fields: its rows, by worker, until all of them are made.
  std::vector<MadeRows> made;
  /// Keeps what is read for it in shared memory, until it is handed over.
  std::vector<std::shared_ptr<const void>> pins;
  /// What is bad: [size] where bad samples may be skipped, else empty. A slot belongs to one thread at a
  /// time.
  std::vector<std::unique_ptr<const BadSlot>> bad;
  int skippers = 0;  ///< ranks that may skip some
};

/// It outlives the loader as long as a batch does.
class BatchPool : public MemoryPool<BatchMemory>, public std::enable_shared_from_this<BatchPool> {
 public:
  using MemoryPool::MemoryPool;
  /// A Batch that gives `memory` back here.
  Batch wrap(std::unique_ptr<BatchMemory> memory) { return {std::move(memory), shared_from_this()}; }
};

}  // namespace rota::internal
