#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "rota/batch.hpp"

namespace rota::internal {

/// Memory of batches that is not in use, kept for the next ones. Any thread.
template <typename Memory>
class MemoryPool {
 public:
  /// Keeps at most `capacity` unused ones.
  MemoryPool(std::vector<Field> fields, Allocator allocator, std::size_t capacity)
      : fields_(std::make_shared<const std::vector<Field>>(std::move(fields))),
        allocator_(std::make_shared<const Allocator>(std::move(allocator))),
        capacity_(capacity) {
    unused_.reserve(capacity);
  }

  [[nodiscard]] const std::vector<Field>& fields() const noexcept { return *fields_; }

  std::unique_ptr<Memory> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!unused_.empty()) {
        auto memory = std::move(unused_.back());
        unused_.pop_back();
        return memory;
      }
    }
    return std::make_unique<Memory>(fields_, allocator_);
  }

  void give_back(std::unique_ptr<Memory> memory) noexcept {
    const std::lock_guard lock(mutex_);
    if (unused_.size() < capacity_) unused_.push_back(std::move(memory));
  }

 private:
  std::shared_ptr<const std::vector<Field>> fields_;
  std::shared_ptr<const Allocator> allocator_;
  std::size_t capacity_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Memory>> unused_;  // reserved to capacity_
};

}  // namespace rota::internal
