#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "loader/field_store.hpp"
#include "loader/worker_parts.hpp"

namespace rota::internal {

/// The rows of ragged fields that a transform makes of one worker's part of a batch: a growing buffer for
/// each field, in which the rows of samples lie one behind the other. When all parts are made, they are
/// copied into the batch. Where one part is all of it, its buffers become the batch's, unless they have grown
/// much too large. *One thread* at a time.
class MadeRows {
 public:
  MadeRows(std::shared_ptr<const std::vector<Field>> fields, std::shared_ptr<BufferPool> buffers);
  MadeRows(MadeRows&&) noexcept = default;
  MadeRows& operator=(MadeRows&&) = delete;
  ~MadeRows() { close(); }

  /// The next samples are those of `part`.
  void begin(SlotRange part) { parts_.push_back(part); }
  /// Drops the rows of the sample at hand, which had none when it began.
  void drop_sample() noexcept;
  /// Rows of field f that the sample has, which keep their bytes as far as they go. Throws as
  /// SampleOutput::resize does.
  std::span<std::byte> resize(std::size_t f, std::int64_t rows);
  /// Ends the sample, the one in `slot` of `store`: notes its row counts there. Returns the bytes of its
  /// rows.
  std::size_t end_sample(FieldStore& store, std::size_t slot) noexcept;

  /// Bytes of its memory that count, as those of tensors do: without the quarter that may come on top.
  [[nodiscard]] std::size_t bytes() const noexcept;

  /// Whether these are the rows of all of so many samples.
  [[nodiscard]] bool is_whole(std::size_t samples) const noexcept;
  /// Makes the buffers those of `store`, but for those much too large.
  void move_into(FieldStore& store) noexcept;
  /// Copies all rows that were not moved into `store`, whose memory is open.
  void copy_into(FieldStore& store) const noexcept;
  /// Gives the memory back.
  void close() noexcept;

 private:
  struct FieldRows {
    Buffer buffer;
    std::size_t begin = 0;   // of the sample, in bytes
    std::size_t end = 0;     // of the sample
    std::int64_t rows = 0;   // of the sample
    std::size_t most = 0;    // bytes that all rows had, in this batch
    std::size_t likely = 0;  // the same of the batch before that had any
  };
  void grow(FieldRows& field, std::size_t bytes);

  std::shared_ptr<const std::vector<Field>> fields_;
  std::shared_ptr<BufferPool> buffers_;
  std::vector<FieldRows> rows_;  // per field; of the ragged ones
  std::vector<SlotRange> parts_;
};

}  // namespace rota::internal
