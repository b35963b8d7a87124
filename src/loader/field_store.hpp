#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "loader/buffer_pool.hpp"
#include "rota/batch.hpp"
#include "rota/source.hpp"

namespace rota::internal {

/// The tensors of a number of samples. Filled in three steps: `resize`, then row counts of ragged fields into
/// `rows`, and `sum_rows`, then `open`, after which `view` may be written to. Different samples from any
/// thread.
class FieldStore {
 public:
  FieldStore(std::shared_ptr<const std::vector<Field>> fields, std::shared_ptr<BufferPool> buffers);
  ~FieldStore() { close(); }
  FieldStore(const FieldStore&) = delete;
  FieldStore& operator=(const FieldStore&) = delete;

  [[nodiscard]] const std::vector<Field>& fields() const noexcept { return *fields_; }

  /// Throws Error{invalid_argument} where the fixed fields of so many would be larger than tensors may be.
  void resize(std::size_t samples);
  /// Where the row counts of ragged field f go: [samples].
  [[nodiscard]] std::span<std::int64_t> rows(std::size_t f) noexcept {
    return std::span(offsets_[f]).subspan(1);
  }
  /// Turns row counts into offsets. Throws Error{callback} for a count below 0 or beyond all memory.
  void sum_rows();
  /// Bytes of all tensors, once row counts are summed; before, of the fixed ones.
  [[nodiscard]] std::size_t bytes() const noexcept;
  /// Takes the memory; that of fixed fields may be taken before row counts are known, and stays.
  void open();
  void open_ragged();
  /// For one ragged field alone: takes its row counts, and its memory. Throws Error{callback} for a field
  /// that is fixed, or for other than one count for each sample, and as `sum_rows` does; the field is then as
  /// it was.
  void open_rows(std::size_t f, std::span<const std::int64_t> rows);
  /// Takes over the memory of ragged field f, in which all its rows lie, in order.
  void adopt(std::size_t f, Buffer buffer) noexcept {
    buffers_->give_back(std::exchange(ragged_[f], std::move(buffer)));
  }
  /// Gives the memory back.
  void close() noexcept;

  [[nodiscard]] const std::shared_ptr<BufferPool>& buffers() const noexcept { return buffers_; }
  [[nodiscard]] std::size_t samples() const noexcept { return samples_; }

  [[nodiscard]] BatchView view(std::span<const std::int64_t> epochs = {}) const noexcept {
    return {memory_, 0, samples_, epochs};
  }
  /// Throws Error{out_of_range} for a field, or sample, that there is not.
  [[nodiscard]] Tensor tensor(std::size_t f) const;
  [[nodiscard]] std::span<std::byte> bytes(std::size_t f, std::int64_t i) const;
  /// Throws Error{not_found} for a name that is not there, naming those that are.
  [[nodiscard]] Tensor tensor(std::string_view name) const;

 private:
  [[nodiscard]] std::size_t bytes(std::size_t f) const noexcept;
  void sum_rows(std::size_t f);
  void open_ragged(std::size_t f);
  void reserve(Buffer& buffer, std::size_t bytes);

  std::shared_ptr<const std::vector<Field>> fields_;
  std::size_t samples_ = 0;
  std::vector<std::vector<std::int64_t>> offsets_;  // per field: [samples + 1] where ragged, else empty
  std::shared_ptr<BufferPool> buffers_;
  Buffer fixed_;                // all fixed fields, one behind the other
  std::vector<Buffer> ragged_;  // per field, of the ragged ones
  std::vector<BatchView::FieldMemory> memory_;
};

}  // namespace rota::internal
