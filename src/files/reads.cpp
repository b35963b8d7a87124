#include "files/reads.hpp"

#include <fmt/format.h>
#include <libaio.h>
#include <sys/uio.h>

#include <array>
#include <cassert>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "core/caught.hpp"
#include "core/owned.hpp"
#include "core/read_tally.hpp"

namespace rota::internal {

namespace {

constexpr std::size_t kMostRanges = 128;  // of one call

// How many bytes of `next` are the last ones of `before`, which does not begin behind it.
std::size_t overlap(const WantedBytes& before, const WantedBytes& next) noexcept {
  return std::min(before.end(), next.end()) - std::min(next.offset, std::min(before.end(), next.end()));
}

const WantedBytes& further(const WantedBytes& a, const WantedBytes& b) noexcept {
  return b.end() > a.end() ? b : a;
}

/// What one call reads, piece by piece; each goes to its place, or nowhere.
class OneCall {
 public:
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): to leave pieces as they are costs nothing
  explicit OneCall(std::span<const WantedBytes> wanted) noexcept : offset_(wanted[0].offset) {
    add(wanted[0].to);
    const WantedBytes* last = wanted.data();  // the one that reaches the furthest
    for (const WantedBytes& next : wanted.subspan(1)) {
      if (next.offset > last->end()) add(std::span(dropped_).first(next.offset - last->end()));
      add(next.to.subspan(overlap(*last, next)));
      last = &further(*last, next);
    }
  }

  // False where it cannot be read as a whole; with RWF_NOWAIT, also where that has to wait for storage.
  [[nodiscard]] bool read(int fd, int flags = 0) const noexcept {
    const ssize_t got =
        ::preadv2(fd, pieces_.data(), static_cast<int>(count_), static_cast<off_t>(offset_), flags);
    return got == static_cast<ssize_t>(bytes_);
  }

 private:
  void add(std::span<std::byte> to) noexcept {
    if (to.empty()) return;
    bytes_ += to.size();
    if (count_ > 0) {
      iovec& last = pieces_[count_ - 1];
      if (static_cast<std::byte*>(last.iov_base) + last.iov_len == to.data()) {
        last.iov_len += to.size();
        return;
      }
    }
    pieces_[count_++] = {to.data(), to.size()};
  }

  std::array<iovec, 2 * kMostRanges> pieces_;
  std::array<std::byte, kMostGap> dropped_;
  std::uint64_t offset_;
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
};

// Copies what was read for another one.
void share_out(std::span<const WantedBytes> wanted) noexcept {
  const WantedBytes* last = wanted.data();
  for (const WantedBytes& next : wanted.subspan(1)) {
    const std::size_t shared = overlap(*last, next);
    if (shared > 0) std::memcpy(next.to.data(), last->to.data() + (next.offset - last->offset), shared);
    last = &further(*last, next);
  }
}

/// What is wanted, call by call.
class Calls {
 public:
  explicit Calls(std::span<const WantedBytes> wanted) noexcept
      : calls_(wanted, {.gap = kMostGap, .ranges = kMostRanges}) {}

  // Reads the calls that need not wait, up to one that has to, which begins; returns its bytes.
  std::optional<std::size_t> begin() {
    while (const auto next = calls_.next()) {
      const std::span<const WantedBytes> now = next->wanted;
      const DatasetFile& file = *now[0].file;
      const bool is_alone = calls_.is_over() && begun_ == 0;  // nothing else can be under way
      if (file.memory() != nullptr || is_alone) {
        read(now);
      } else if (has_cached() && OneCall(now).read(file.descriptor(), RWF_NOWAIT)) {
        share_out(now);
        ++cached_;
      } else {
        file.will_read(next->begin, next->end - next->begin);
        ++begun_;
        waiting_.push_back(now);
        return next->end - next->begin;
      }
    }
    return std::nullopt;
  }

  // Waits for the oldest that has begun.
  void end() {
    read(waiting_.front());
    waiting_.pop_front();
  }

 private:
  // Whether it seems worth a call to look. Where the first ones are not cached, none is likely to be.
  [[nodiscard]] bool has_cached() const noexcept {
    constexpr std::size_t kTries = 4;
    return cached_ > 0 || begun_ < kTries;
  }

  static void read(std::span<const WantedBytes> now) {
    const bool is_joined = now.size() > 1 && now[0].file->memory() == nullptr;
    const auto begun = ReadClock::now();
    if (is_joined && OneCall(now).read(now[0].file->descriptor())) {
      ReadTally::here().add(seconds_since(begun), [&] { return now[0].file->path(); });
      return share_out(now);
    }
    // Also to find out what is wrong with which of them.
    for (const WantedBytes& one : now) one.file->read(one.offset, one.to);
  }

  JoinedReads<const WantedBytes> calls_;
  std::deque<std::span<const WantedBytes>> waiting_;
  std::size_t begun_ = 0;
  std::size_t cached_ = 0;
};

constexpr std::uint64_t kPage = 4096;  // no file system wants more to be aligned
constexpr std::uint64_t kMostExtent = 256 << 10;
constexpr std::size_t kSlots = 64;

// Whole pages of a file.
using Extents = JoinedReads<const WantedBytes>;

}  // namespace

void read_from_storage(std::span<const WantedBytes> wanted) {
  std::vector<StoredBytes> stored;
  std::vector<const DatasetFile*> files;
  for (const WantedBytes& one : wanted) {
    if (one.to.empty()) continue;
    if (one.end() > one.file->bytes()) return one.file->read(one.offset, one.to);  // says where it ends
    stored.push_back({.file = &one.file->stored(), .offset = one.offset, .to = one.to});
    files.push_back(one.file);
  }
  if (stored.empty()) return;
  try {
    const auto begun = ReadClock::now();
    files[0]->storage()->read(stored);
    if (files.front() == files.back())
      ReadTally::here().add(seconds_since(begun), [&] { return files[0]->path(); });
  } catch (...) {
    throw caught().as_error_of(files[0]->path(), fmt::format("read {}", files[0]->path()));
  }
  for (std::size_t i = 0; i < stored.size(); ++i) {
    if (stored[i].error == nullptr) {
      ReadTally::here().stored_bytes += std::ssize(stored[i].to);
      continue;
    }
    throw caught(stored[i].error)
        .as_error_of(files[i]->path(), fmt::format("read {}, {} bytes from {} on", files[i]->path(),
                                                   stored[i].to.size(), stored[i].offset));
  }
}

void read_at_once(std::span<const WantedBytes> wanted) {
  assert(std::ranges::is_sorted(wanted, [](const WantedBytes& a, const WantedBytes& b) {
    return a.file == b.file && a.offset < b.offset;
  }));
  if (!wanted.empty() && wanted[0].file->storage() != nullptr) return read_from_storage(wanted);
  Calls calls(wanted);
  read_ahead([&] { return calls.begin(); }, [&] { calls.end(); });
}

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
    const auto begun = ReadClock::now();
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
    ReadTally::here().add(seconds_since(begun), [&] { return file_of(slot.extent).path(); });
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
