#include "files/direct_reads.hpp"

#include <libaio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "core/owned.hpp"
#include "files/joined_reads.hpp"

namespace rota::internal {
namespace {

constexpr std::uint64_t kPage = 4096;  // no file system wants more to be aligned
constexpr std::uint64_t kMostExtent = 256 << 10;
constexpr std::size_t kSlots = 64;

// Whole pages of a file.
using Extents = JoinedReads<const WantedBytes>;

}  // namespace

/// What one thread has under way.
class DirectReads::Queue {
 public:
  Queue() : is_there_(::io_setup(kSlots, &context_) == 0) {}
  ~Queue() {
    if (is_there_) ::io_destroy(context_);
  }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  void read(std::span<const WantedBytes> wanted) {
    Extents extents(wanted, {.gap = kMostGap, .bytes = kMostExtent, .part = kMostExtent, .unit = kPage});
    begun_ = ended_ = 0;
    try {
      read_ahead(
          [&]() -> std::optional<std::size_t> {
            const auto extent = extents.next();
            if (extent) begin(*extent);
            return extent ? std::optional<std::size_t>(extent->end - extent->begin) : std::nullopt;
          },
          [&] { end(); }, kSlots);
    } catch (...) {
      while (ended_ < begun_) wait(slots_[ended_++ % kSlots]);  // its memory is still written to
      throw;
    }
  }

 private:
  struct Slot {
    iocb block{};
    Extents::Read extent;
    std::unique_ptr<std::byte, FreeBy<std::free>> memory;
    std::size_t bytes = 0;  // of it
    std::int64_t got = 0;
    bool is_done = true;
  };

  static const DatasetFile& file_of(const Extents::Read& extent) noexcept { return *extent.wanted[0].file; }

  void begin(const Extents::Read& extent) {
    Slot& slot = slots_[begun_ % kSlots];
    const std::size_t bytes = extent.end - extent.begin;
    if (slot.bytes < bytes) {
      slot.memory.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, bytes)));
      if (slot.memory == nullptr) throw std::bad_alloc();
      slot.bytes = bytes;
    }
    slot.extent = extent;
    slot.got = -1;
    slot.is_done = !is_there_ || file_of(extent).direct_descriptor() < 0;
    ++begun_;
    if (slot.is_done) return;
    ::io_prep_pread(&slot.block, file_of(extent).direct_descriptor(), slot.memory.get(), bytes,
                    static_cast<std::int64_t>(extent.begin));
    slot.block.data = &slot;
    waiting_[waiting_count_++] = &slot.block;
    if (waiting_count_ == waiting_.size()) submit();
  }

  // To the system; what it refuses is read otherwise.
  void submit() {
    iocb** next = waiting_.data();
    for (std::size_t left = std::exchange(waiting_count_, 0); left > 0;) {
      const int taken = ::io_submit(context_, static_cast<std::int64_t>(left), next);
      if (taken == -EINTR) continue;
      const std::size_t passed = taken > 0 ? static_cast<std::size_t>(taken) : 1;
      if (taken <= 0) static_cast<Slot*>((*next)->data)->is_done = true;
      next += passed;
      left -= passed;
    }
  }

  void wait(Slot& slot) {
    if (slot.is_done) return;
    submit();
    while (!slot.is_done) {
      const int count = ::io_getevents(context_, 1, kSlots, events_.data(), nullptr);
      if (count < 0 && count != -EINTR) return;  // nothing is under way
      for (int i = 0; i < count; ++i) {
        const io_event& event = events_[static_cast<std::size_t>(i)];
        auto& done = *static_cast<Slot*>(event.data);
        done.got = static_cast<std::int64_t>(event.res);
        done.is_done = true;
      }
    }
  }

  // Waits for the oldest, and copies what is wanted of it.
  void end() {
    Slot& slot = slots_[ended_ % kSlots];
    wait(slot);
    ++ended_;
    const Extents::Read& extent = slot.extent;
    const std::uint64_t end = extent.begin + static_cast<std::uint64_t>(std::max<std::int64_t>(slot.got, 0));
    for (const WantedBytes& range : extent.wanted) {
      const std::uint64_t from = std::max(range.offset, extent.begin);
      const std::uint64_t to = std::min(range.end(), extent.end);
      if (from >= to) continue;
      const std::span<std::byte> out = range.to.subspan(from - range.offset, to - from);
      if (to <= end) {
        std::memcpy(out.data(), slot.memory.get() + (from - extent.begin), out.size());
      } else {
        range.file->read(from, out);
      }
    }
  }

  io_context_t context_ = nullptr;
  bool is_there_;
  std::array<Slot, kSlots> slots_;
  std::array<io_event, kSlots> events_{};
  std::array<iocb*, 16> waiting_{};  // to be submitted together
  std::size_t waiting_count_ = 0;
  std::size_t begun_ = 0;
  std::size_t ended_ = 0;
};

DirectReads::DirectReads() = default;
DirectReads::~DirectReads() = default;

void DirectReads::read(std::span<const WantedBytes> wanted) const {
  if (wanted.empty()) return;
  std::unique_ptr<Queue> queue;
  {
    const MutexLock lock(mutex_);
    if (!free_.empty()) {
      queue = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (queue == nullptr) queue = std::make_unique<Queue>();
  queue->read(wanted);
  const MutexLock lock(mutex_);
  free_.push_back(std::move(queue));
}

}  // namespace rota::internal
