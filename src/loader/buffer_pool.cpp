#include "loader/buffer_pool.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/caught.hpp"
#include "core/failure.hpp"
#include "core/scarce.hpp"

namespace rota::internal {
namespace {

static_assert(std::is_nothrow_move_constructible_v<Buffer>);
static_assert(std::is_nothrow_move_assignable_v<Buffer>);

constexpr std::size_t kHugePage = std::size_t{1} << 21;
constexpr std::size_t kLarge = 16 * kHugePage;  // which glibc always asks the system for

constexpr std::align_val_t alignment(std::size_t bytes) {
  return std::align_val_t{bytes < kLarge ? kBufferAlignment : kHugePage};
}

// Where it is large, in huge pages, if the system has them: it maps and clears it several times as fast.
std::byte* new_bytes(std::size_t bytes) {
  void* const data = ::operator new(bytes, alignment(bytes));
  if (bytes >= kLarge) (void)::madvise(data, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return static_cast<std::byte*>(data);
}

// Some room to grow, so that ragged batches of nearly one size do not ask again and again.
constexpr std::size_t with_room(std::size_t bytes) { return (bytes + bytes / 8 + kPage - 1) / kPage * kPage; }
static_assert(with_room(1) <= most_buffer_bytes(1) && with_room(1 << 20) <= most_buffer_bytes(1 << 20));

}  // namespace

Buffer::Buffer(std::shared_ptr<const Allocator> allocator, std::size_t bytes)
    : data_(nullptr, {std::move(allocator), bytes}) {
  const auto& allocate = data_.get_deleter().allocator->allocate;
  const auto task = [&] { return fmt::format("take {} bytes for the tensors of a batch", bytes); };
  const auto refuse = [&](std::string_view why) {
    throw failure(ErrorCode::callback, "{}: {}", task(), why);
  };
  if (!allocate) {
    data_.reset(with_memory([&] { return new_bytes(bytes); }, task));
    return;
  }
  try {
    data_.reset(static_cast<std::byte*>(allocate(bytes)));
  } catch (const Error&) {
    throw;
  } catch (...) {
    throw caught().as_error(fmt::format("{}: ask the allocator", task()));
  }
  if (!data_) refuse("the allocator returned null; it must throw where it has none");
  if (reinterpret_cast<std::uintptr_t>(data()) % kBufferAlignment == 0) return;
  refuse("the allocator returned an address that is no multiple of 64");
}

void ReleaseBuffer::operator()(std::byte* data) const noexcept {
  if (allocator->release) {
    allocator->release(data, bytes);
  } else {
    ::operator delete(data, alignment(bytes));
  }
}

BufferPool::BufferPool(Allocator allocator, std::int64_t most_bytes)
    : allocator_(std::make_shared<const Allocator>(std::move(allocator))),
      most_bytes_(static_cast<std::size_t>(most_bytes)) {}

Buffer BufferPool::take(std::size_t bytes) {
  const std::size_t wanted = with_room(bytes);
  std::vector<Buffer> surplus;  // is freed after the lock, and before more is asked for
  {
    const MutexLock lock(mutex_);
    if (Buffer found = find(bytes); found.data() != nullptr) return found;
    all_bytes_ += wanted;
    surplus = take_surplus();
  }
  surplus.clear();
  try {
    Buffer buffer(allocator_, wanted);
    const MutexLock lock(mutex_);
    largest_bytes_ = std::max(largest_bytes_, wanted);
    return buffer;
  } catch (...) {
    const MutexLock lock(mutex_);
    all_bytes_ -= wanted;
    throw;
  }
}

void BufferPool::give_back(Buffer buffer) noexcept {
  if (buffer.data() == nullptr) return;
  const MutexLock lock(mutex_);
  try {
    if (!keeps_too_much()) return unused_.push_back(std::move(buffer));
  } catch (const std::bad_alloc&) {  // there is no room to keep it
  }
  all_bytes_ -= buffer.bytes();
}

// One that will do, and is not much too large.
Buffer BufferPool::find(std::size_t bytes) noexcept {
  const auto fits = [&](const Buffer& buffer) {
    return buffer.bytes() >= bytes && buffer.bytes() <= most_buffer_bytes(bytes);
  };
  const auto found_at = std::ranges::find_if(unused_, fits);
  if (found_at == unused_.end()) return {};
  std::swap(*found_at, unused_.back());
  Buffer found = std::move(unused_.back());
  unused_.pop_back();
  return found;
}

std::vector<Buffer> BufferPool::take_surplus() {
  std::vector<Buffer> surplus;
  while (!unused_.empty() && keeps_too_much()) {
    all_bytes_ -= unused_.back().bytes();
    surplus.push_back(std::move(unused_.back()));
    unused_.pop_back();
  }
  return surplus;
}

}  // namespace rota::internal
