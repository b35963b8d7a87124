#pragma once

// How much is read at a time for somebody who goes through a file.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rota::internal {

/// How many bytes a reader of a file gets at a time: few where it looks here and there, and more each time
/// that it goes on where it was. *One thread.*
class ReadPace {
 public:
  struct Limits {
    std::uint64_t least = 0;
    std::uint64_t most = 0;
    std::uint64_t growth = 2;  ///< from one time to the next
    bool may_jump = false;     ///< who leaves out no more than was read last goes on, too
  };
  explicit ReadPace(const Limits& limits) noexcept : limits_(limits) {}

  /// How many to read from `offset` on for a reader that needs `count`: no fewer.
  [[nodiscard]] std::uint64_t next(std::uint64_t offset, std::uint64_t count) noexcept {
    const bool goes_on = offset >= begin_ && offset <= end_ + (limits_.may_jump ? bytes_ : 0);
    bytes_ = std::clamp(goes_on ? limits_.growth * bytes_ : 0, limits_.least, limits_.most);
    begin_ = offset;
    end_ = offset + std::max(bytes_, count);
    return end_ - begin_;
  }

 private:
  Limits limits_;
  std::uint64_t begin_ = 0;  // of what was read last
  std::uint64_t end_ = 0;
  std::uint64_t bytes_ = 0;  // of it, if no more were needed
};

/// The part of a file that its reader is at. *One thread.*
class ReadWindow {
 public:
  explicit ReadWindow(const ReadPace::Limits& limits) noexcept : pace_(limits) {}

  /// Bytes [offset, offset + count) of a file of `end` bytes, or fewer at its end, until the next call.
  /// `read(offset, to)` reads them, and returns how many there were.
  template <typename Read>
  [[nodiscard]] std::span<const std::byte> at(std::uint64_t offset, std::size_t count, std::uint64_t end,
                                              const Read& read) {
    offset = std::min(offset, end);
    count = std::min<std::uint64_t>(count, end - offset);
    if (offset < begin_ || offset + count > begin_ + size_) {
      bytes_.resize(std::min(pace_.next(offset, count), end - offset));
      begin_ = offset;
      size_ = 0;
      size_ = read(offset, std::span(bytes_));
    }
    const std::size_t skipped = offset - begin_;
    return std::span<const std::byte>(bytes_).subspan(skipped, std::min(count, size_ - skipped));
  }

 private:
  ReadPace pace_;
  std::vector<std::byte> bytes_;
  std::uint64_t begin_ = 0;
  std::size_t size_ = 0;  // of `bytes_`, that were there
};

}  // namespace rota::internal
