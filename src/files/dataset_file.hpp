#pragma once

// A file of a dataset that is open for reading, and how much is read at a time for who goes through it.

#include <fmt/format.h>
#include <algorithm>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files/descriptor.hpp"
#include "rota/error.hpp"
#include "rota/storage.hpp"

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

/// A file of a dataset that is open for reading: on a file system, in a storage, or in memory. *Immutable*,
/// any thread.
class DatasetFile {
 public:
  /// File `number` of its list, by the path that messages name; `direct` reads past the page cache, where it
  /// is open. Throws Error{io} where the file cannot be asked for its size.
  DatasetFile(std::string path, std::size_t number, Descriptor descriptor, Descriptor direct = Descriptor());
  /// What `storage` has as `stored`.
  DatasetFile(std::string path, std::size_t number, std::shared_ptr<const Storage> storage,
              StoredFile stored);
  /// The `bytes` bytes at `memory`: what that file decompresses to, where `is_decompressed`, or a copy.
  DatasetFile(std::string path, std::size_t number, std::shared_ptr<const std::byte> memory,
              std::size_t bytes, bool is_decompressed);

  /// Whose bytes are mapped into memory. Throws Error{io}.
  static DatasetFile map(std::string path, std::size_t number, Descriptor descriptor);

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::size_t number() const noexcept { return number_; }
  /// As it was opened.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  /// All of it, where it is in memory; else null, and there is a storage or a descriptor.
  [[nodiscard]] const std::byte* memory() const noexcept { return memory_.get(); }
  /// Where it is, if not on a file system; else null.
  [[nodiscard]] const Storage* storage() const noexcept { return storage_.get(); }
  [[nodiscard]] const StoredFile& stored() const noexcept { return stored_; }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_.get(); }
  /// The one that reads whole pages past the page cache; negative without.
  [[nodiscard]] int direct_descriptor() const noexcept { return direct_.get(); }

  /// Its reader goes through it, from its beginning to its end or here and there. What follows comes with
  /// what is asked for, the more the longer that goes on; of a storage, a small file whole. *One thread* from
  /// here on.
  void read_on();
  /// Bytes [offset, offset + count), or fewer at its end, until it is read again. Its reader goes through it,
  /// or it is in memory. Throws as read_up_to_end does.
  [[nodiscard]] std::span<const std::byte> at(std::uint64_t offset, std::size_t count) const;

  /// Reads [offset, offset + to.size()). Throws Error{io}, Error{corrupt} where the file ends before; what a
  /// storage throws, with its code, or Error{callback}.
  void read(std::uint64_t offset, std::span<std::byte> to) const;
  /// The same up to the end of the file. Returns the bytes read. Throws Error{io}, and as a storage does.
  std::size_t read_up_to_end(std::uint64_t offset, std::span<std::byte> to) const;
  /// Reads as `read` does what the page cache has; false where it lacks some of it, or the file does. Of a
  /// file system.
  [[nodiscard]] bool read_cached(std::uint64_t offset, std::span<std::byte> to) const noexcept;
  /// As will_read_at.
  void will_read(std::uint64_t offset, std::uint64_t count) const noexcept;
  /// Error{corrupt}: `what` is wrong at byte `offset`.
  [[nodiscard]] Error damage(std::uint64_t offset, std::string_view what) const;
  template <typename... Parts>
  [[nodiscard]] Error damage(std::uint64_t offset, fmt::format_string<Parts...> what, Parts&&... parts) const
      requires(sizeof...(Parts) > 0) {
    return damage(offset, fmt::format(what, std::forward<Parts>(parts)...));
  }

 private:
  std::size_t read_now(std::uint64_t offset, std::span<std::byte> to) const;

  std::string path_;
  std::size_t number_;
  Descriptor descriptor_;
  Descriptor direct_;
  std::shared_ptr<const Storage> storage_;
  StoredFile stored_;
  std::shared_ptr<const std::byte> memory_;
  std::unique_ptr<ReadWindow> window_;  // null: nobody goes through it
  std::uint64_t bytes_;
  bool is_decompressed_ = false;
};

}  // namespace rota::internal
