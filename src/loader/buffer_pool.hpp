#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/mutex.hpp"
#include "rota/batch.hpp"

namespace rota::internal {

inline constexpr std::size_t kBufferAlignment = 64;
inline constexpr std::size_t kPage = 4096;

/// The largest buffer that is used for tensors of `bytes`: a quarter more, and a page.
constexpr std::size_t most_buffer_bytes(std::size_t bytes) { return bytes + bytes / 4 + kPage; }

/// Gives memory of `bytes` back to `allocator`.
struct ReleaseBuffer {
  std::shared_ptr<const Allocator> allocator;
  std::size_t bytes = 0;
  void operator()(std::byte* data) const noexcept;
};

/// Memory that an allocator gave, aligned to kBufferAlignment. Move-only.
class Buffer {
 public:
  Buffer() noexcept = default;
  /// Throws what the allocator throws, as an Error; Error{callback} for memory that is none or not aligned;
  /// Error{io} where there is no more.
  Buffer(std::shared_ptr<const Allocator> allocator, std::size_t bytes);

  [[nodiscard]] std::byte* data() const noexcept { return data_.get(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return data_ ? data_.get_deleter().bytes : 0; }

 private:
  std::unique_ptr<std::byte, ReleaseBuffer> data_;
};

/// Buffers that are not in use, kept for those that will be of about the same size. Any thread.
class BufferPool {
 public:
  /// Keeps none where all buffers, in use or not, take more than `most_bytes` and four times the largest.
  BufferPool(Allocator allocator, std::int64_t most_bytes);

  /// A buffer of `bytes`, and of most_buffer_bytes(bytes) at most.
  [[nodiscard]] Buffer take(std::size_t bytes);
  void give_back(Buffer buffer) noexcept;

 private:
  [[nodiscard]] Buffer find(std::size_t bytes) noexcept ROTA_REQUIRES(mutex_);
  [[nodiscard]] std::vector<Buffer> take_surplus() ROTA_REQUIRES(mutex_);
  [[nodiscard]] bool keeps_too_much() const noexcept ROTA_REQUIRES(mutex_) {
    return all_bytes_ > most_bytes_ + 4 * largest_bytes_;
  }

  std::shared_ptr<const Allocator> allocator_;
  std::size_t most_bytes_;
  Mutex mutex_;
  std::size_t all_bytes_ ROTA_GUARDED_BY(mutex_) = 0;      // of all buffers, in use or not
  std::size_t largest_bytes_ ROTA_GUARDED_BY(mutex_) = 0;  // of those that there were
  std::vector<Buffer> unused_ ROTA_GUARDED_BY(mutex_);
};

}  // namespace rota::internal
