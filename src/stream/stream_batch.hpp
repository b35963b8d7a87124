#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "loader/field_store.hpp"
#include "loader/memory_pool.hpp"
#include "rota/stream_loader.hpp"
#include "stream/shard_reader.hpp"

namespace rota::internal {

/// How a sample moves its shard's place when it is delivered.
struct Advance {
  std::size_t shard = 0;  // among those of its rank and epoch
  bool has_cursor = false;
  StreamCursor cursor;  // where it has one
};

/// What is behind a StreamBatch.
struct StreamBatchMemory {
  StreamBatchMemory(std::shared_ptr<const std::vector<Field>> fields, std::shared_ptr<BufferPool> buffers)
      : store(std::move(fields), std::move(buffers)) {}

  /// Lets go all that it keeps while it is in use.
  void close() noexcept { store.close(); }
  /// Takes memory for the fixed fields of so many samples, which may be read straight into their slots.
  void open(std::size_t samples);
  /// Says how many samples there are, at most as many as it was opened for. All of them are set, in order,
  /// then finished, then those of ragged fields copied.
  void resize(std::size_t samples);
  /// Takes over what is not ragged of sample i. It is either in memory of its own, or in a slot of such a
  /// batch that is not before the i-th.
  void set(std::size_t i, std::size_t shard, Reading& reading) noexcept;
  /// Takes memory for ragged fields.
  void finish();
  void copy_ragged(std::size_t i, const StreamSample& sample) const noexcept;

  StreamPosition start;
  std::vector<StreamId> ids;
  std::vector<std::int64_t> positions;
  std::vector<Advance> advances;
  std::vector<std::size_t> ended;  // shards whose end was seen before the last sample
  std::vector<bool> is_lent;       // per slot
  std::int64_t kept_bytes = 0;     // of samples and cursors
  FieldStore store;
};

/// It outlives the loader as long as a batch does.
class StreamBatchPool : public MemoryPool<StreamBatchMemory>,
                        public std::enable_shared_from_this<StreamBatchPool> {
 public:
  using MemoryPool::MemoryPool;
  /// A StreamBatch that gives `memory` back here.
  StreamBatch wrap(std::unique_ptr<StreamBatchMemory> memory) {
    return {std::move(memory), shared_from_this()};
  }
};

}  // namespace rota::internal
