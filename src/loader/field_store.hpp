#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "rota/batch.hpp"
#include "rota/source.hpp"

namespace rota::internal {

/// Bytes from an Allocator that only grow; what was in them is lost then. Move-only.
class Buffer {
 public:
  explicit Buffer(std::shared_ptr<const Allocator> allocator) noexcept : allocator_(std::move(allocator)) {}
  ~Buffer() { release(); }
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  void reserve(std::size_t bytes);
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

 private:
  void release() noexcept;
  std::shared_ptr<const Allocator> allocator_;
  std::byte* data_ = nullptr;
  std::size_t capacity_ = 0;
};

/// The tensors of a number of samples, in memory that is reused. Filled in three steps: `resize`, then row
/// counts of ragged fields into `rows`, then `open`, after which `view` may be written to. Different samples
/// from any thread.
class FieldStore {
 public:
  FieldStore(std::shared_ptr<const std::vector<Field>> fields, std::shared_ptr<const Allocator> allocator);

  [[nodiscard]] const std::vector<Field>& fields() const noexcept { return *fields_; }
  [[nodiscard]] bool has_ragged() const noexcept { return has_ragged_; }

  void resize(std::size_t samples);
  /// Where the row counts of ragged field f go: [samples].
  [[nodiscard]] std::span<std::int64_t> rows(std::size_t f) noexcept {
    return std::span(offsets_[f]).subspan(1);
  }
  /// Turns row counts into offsets. Throws Error{callback} for a count below 0 or beyond all memory.
  void sum_rows();
  /// Bytes of all tensors, once row counts are summed.
  [[nodiscard]] std::size_t bytes() const noexcept;
  /// Takes the memory.
  void open();

  [[nodiscard]] BatchView view() const noexcept { return {memory_, 0, samples_}; }
  [[nodiscard]] Tensor tensor(std::size_t f) const noexcept;
  /// Throws Error{not_found} for a name that is not there, naming those that are.
  [[nodiscard]] Tensor tensor(std::string_view name) const;

 private:
  [[nodiscard]] std::size_t bytes(std::size_t f) const noexcept;

  std::shared_ptr<const std::vector<Field>> fields_;
  bool has_ragged_ = false;
  std::size_t samples_ = 0;
  std::vector<std::vector<std::int64_t>> offsets_;  // per field: [samples + 1] where ragged, else empty
  std::vector<Buffer> buffers_;
  std::vector<BatchView::FieldMemory> memory_;
};

}  // namespace rota::internal
