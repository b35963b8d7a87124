#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/mutex.hpp"
#include "loader/buffer_pool.hpp"
#include "rota/batch.hpp"

namespace rota::internal {

/// What is behind batches that are not in use, kept for the next ones; the memory of their tensors goes back
/// to a BufferPool meanwhile. Any thread.
template <typename Memory>
class MemoryPool {
 public:
  /// Keeps at most `capacity` unused ones, and buffers as the BufferPool does.
  MemoryPool(std::vector<Field> fields, Allocator allocator, std::size_t capacity, std::int64_t most_bytes)
      : fields_(std::make_shared<const std::vector<Field>>(std::move(fields))),
        buffers_(std::make_shared<BufferPool>(std::move(allocator), most_bytes)),
        capacity_(capacity) {
    unused_.reserve(capacity);
  }

  [[nodiscard]] const std::shared_ptr<const std::vector<Field>>& fields() const noexcept { return fields_; }

  std::unique_ptr<Memory> take() {
    {
      const MutexLock lock(mutex_);
      if (!unused_.empty()) {
        auto memory = std::move(unused_.back());
        unused_.pop_back();
        return memory;
      }
    }
    return std::make_unique<Memory>(fields_, buffers_);
  }

  void give_back(std::unique_ptr<Memory> memory) noexcept {
    memory->close();
    const MutexLock lock(mutex_);
    if (unused_.size() < capacity_) unused_.push_back(std::move(memory));
  }

 private:
  std::shared_ptr<const std::vector<Field>> fields_;
  std::shared_ptr<BufferPool> buffers_;
  std::size_t capacity_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Memory>> unused_ ROTA_GUARDED_BY(mutex_);  // reserved to capacity_
};

}  // namespace rota::internal
