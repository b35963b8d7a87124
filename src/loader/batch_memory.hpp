#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "loader/field_store.hpp"
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
  BatchMemory(std::shared_ptr<const std::vector<Field>> fields, std::shared_ptr<const Allocator> allocator)
      : store(std::move(fields), std::move(allocator)) {}

  FieldStore store;
  /// What is bad: [size] where bad samples may be skipped, else empty. A slot belongs to one thread at a
  /// time.
  std::vector<std::unique_ptr<const BadSlot>> bad;
};

/// Batch memory that is not in use, kept for the next batch. Outlives the loader as long as a batch does. Any
/// thread.
class BatchPool : public std::enable_shared_from_this<BatchPool> {
 public:
  /// Keeps at most `capacity` unused ones.
  BatchPool(std::vector<Field> fields, Allocator allocator, std::size_t capacity);

  [[nodiscard]] const std::vector<Field>& fields() const noexcept { return *fields_; }
  std::unique_ptr<BatchMemory> take();
  void give_back(std::unique_ptr<BatchMemory> memory) noexcept;
  /// A Batch that gives `memory` back here.
  Batch wrap(std::unique_ptr<BatchMemory> memory) { return {std::move(memory), shared_from_this()}; }

 private:
  std::shared_ptr<const std::vector<Field>> fields_;
  std::shared_ptr<const Allocator> allocator_;
  std::size_t capacity_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<BatchMemory>> unused_;  // reserved to capacity_
};

}  // namespace rota::internal
