#pragma once

// Reads of many ranges of files at once: which ranges one read brings, through the page cache and past it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/mutex.hpp"
#include "files/dataset_file.hpp"

namespace rota::internal {

/// Which ranges one read brings.
struct ReadLimits {
  std::uint64_t gap = 0;  ///< so many bytes between two ranges are read, too
  std::uint64_t bytes =
      std::numeric_limits<std::uint64_t>::max();                   ///< that are joined; longer ranges are cut
  std::uint64_t part = std::numeric_limits<std::uint64_t>::max();  ///< into parts of so many
  std::size_t ranges = std::numeric_limits<std::size_t>::max();    ///< that are joined
  std::uint64_t unit = 1;  ///< a power of two; reads begin and end at multiples of it
};

/// What one request to a store or a web server brings.
inline constexpr ReadLimits kRequests{
    .gap = std::uint64_t{1} << 20, .bytes = std::uint64_t{16} << 20, .part = std::uint64_t{8} << 20};

/// Ranges of files, those of a file side by side and by offset, as reads: one for all that nearly touch, or
/// several for one that is long. `Wanted` has a `file`, an `offset` in it, and memory `to` go to.
template <typename Wanted>
class JoinedReads {
 public:
  /// Bytes [begin, end) of the file of these ranges, which all begin before `end`.
  struct Read {
    std::span<Wanted> wanted;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };

  JoinedReads(std::span<Wanted> wanted, const ReadLimits& limits) noexcept : limits_(limits), rest_(wanted) {}

  /// Nothing once all were given.
  [[nodiscard]] std::optional<Read> next() noexcept {
    while (joined_.begin == joined_.end) {
      if (rest_.empty()) return std::nullopt;
      join();
    }
    Read read = joined_;
    if (read.end - read.begin > part_) read.end = read.begin + part_;
    joined_.begin = read.end;
    return read;
  }
  /// Whether `next` has nothing more, where ranges are not empty.
  [[nodiscard]] bool is_over() const noexcept { return rest_.empty() && joined_.begin == joined_.end; }

 private:
  void join() noexcept {
    const std::uint64_t within = limits_.unit - 1;
    const auto end_of = [&](const Wanted& one) { return (one.offset + one.to.size() + within) & ~within; };
    joined_.begin = rest_[0].offset & ~within;
    joined_.end = end_of(rest_[0]);
    std::size_t count = 1;
    for (; count < std::min(rest_.size(), limits_.ranges); ++count) {
      const Wanted& next = rest_[count];
      const std::uint64_t end = std::max(joined_.end, end_of(next));
      if (next.file != rest_[0].file || next.offset > joined_.end + limits_.gap) break;
      if (end - joined_.begin > limits_.bytes) break;
      joined_.end = end;
    }
    part_ = joined_.end - joined_.begin > limits_.bytes ? limits_.part : limits_.bytes;
    joined_.wanted = rest_.first(count);
    rest_ = rest_.subspan(count);
  }

  ReadLimits limits_;
  std::span<Wanted> rest_;
  Read joined_;             // what is left of it
  std::uint64_t part_ = 0;  // of it
};

/// Bytes of a file, and where they belong.
struct WantedBytes {
  const DatasetFile* file = nullptr;
  std::uint64_t offset = 0;
  std::span<std::byte> to;
  [[nodiscard]] std::uint64_t end() const noexcept { return offset + to.size(); }
  /// Those of a file side by side, by offset.
  [[nodiscard]] static bool is_before(const WantedBytes& a, const WantedBytes& b) noexcept {
    return a.file != b.file ? std::less<>()(a.file, b.file) : a.offset < b.offset;
  }
};

/// What lies between two of them is read, too, and dropped, where it is no more than this. From the page
/// cache so many bytes cost about as much as another call.
inline constexpr std::size_t kMostGap = 4096;

/// Reads all that is `wanted`, of one place: that of a file side by side, by offset; ranges may overlap.
/// Those that touch in a file, or nearly do, are read in one call. What is not in the page cache is under way
/// together. Blocks on storage. Throws as DatasetFile::read does, for the first that fails. Any thread.
void read_at_once(std::span<const WantedBytes> wanted);

/// The same of files that are in one storage, and not in memory: all of them by one call of it.
void read_from_storage(std::span<const WantedBytes> wanted);

/// Has things read one after the other, each begun some way before it is waited for. `begin()` begins to read
/// the next one, and returns of how many bytes, or nothing where there are no more; `end()` waits for the
/// oldest that has begun, and takes it.
///
/// Many are begun before the first is waited for, and no more until half of them are over: so a thread sleeps
/// seldom, for most that it comes to has come meanwhile.
template <typename Begin, typename End>
void read_ahead(Begin begin, End end, std::size_t most_reads = 512) {
  constexpr std::size_t kMostBytes = std::size_t{32} << 20;
  std::deque<std::size_t> under_way;
  std::size_t bytes = 0;
  bool is_more = true;
  do {
    while (is_more && under_way.size() < most_reads && bytes < kMostBytes) {
      const std::optional<std::size_t> begun = begin();
      is_more = begun.has_value();
      if (is_more) under_way.push_back(*begun);
      bytes += begun.value_or(0);
    }
    const std::size_t kept = is_more ? under_way.size() / 2 : 0;
    while (under_way.size() > kept) {
      end();
      bytes -= under_way.front();
      under_way.pop_front();
    }
  } while (is_more || !under_way.empty());
}

/// Reads files past the page cache, by io_submit(2), into memory of its own: 16 MiB or less for each thread
/// that reads at a time. What cannot be read so is read through the page cache. Any thread.
class DirectReads {
 public:
  DirectReads();
  ~DirectReads();
  DirectReads(const DirectReads&) = delete;
  DirectReads& operator=(const DirectReads&) = delete;

  /// As read_at_once.
  void read(std::span<const WantedBytes> wanted) const;

 private:
  class Queue;

  mutable Mutex mutex_;
  mutable std::vector<std::unique_ptr<Queue>> free_ ROTA_GUARDED_BY(mutex_);
};

}  // namespace rota::internal
