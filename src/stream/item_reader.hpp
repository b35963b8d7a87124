#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "stream/instance.hpp"
#include "stream/record_layout.hpp"
#include "stream/shard_reader.hpp"

namespace rota::internal {

/// Items that were read of a dispatched source and not delivered, as records.
class PendingItems {
 public:
  struct Item {
    std::int64_t epoch = 0;
    std::int64_t number = 0;  // in the epoch
    std::size_t begin = 0;    // of its bytes
    std::size_t size = 0;
  };
  void add(std::int64_t epoch, std::int64_t number, ByteSpan record);
  [[nodiscard]] const std::vector<Item>& items() const noexcept { return items_; }
  [[nodiscard]] ByteSpan bytes(const Item& item) const noexcept {
    return ByteSpan(bytes_).subspan(item.begin, item.size);
  }

 private:
  std::vector<Item> items_;
  std::vector<std::byte> bytes_;
};

/// Where a dispatched source is: behind the last item that was read of it.
struct SourceProgress {
  std::int64_t epoch = 0;
  ShardProgress shard = {};  // `position`: items read of the epoch; `is_done`: the end of it was seen
};

/// Reads the items of a dispatch one after the other: those that are pending, which are in order, then those
/// of the source, opened where it is, by an instance of its own if it makes one. *One thread* at a time.
class ItemReader {
 public:
  /// `world` is what the source's instance is told.
  ItemReader(const StreamSource& source, const RecordLayout& layout, World world, std::int64_t epoch,
             SourceProgress place, PendingItems pending);

  /// Appends the record of the epoch's next item to `out`; false at the end of the epoch. Throws what the
  /// source throws, and may be called again: it is then opened anew behind what was read.
  bool read(std::vector<std::byte>& out);
  void begin_next_epoch();
  /// Ends what is the reading thread's own, in there.
  void close() noexcept;

  /// Takes the source's cursor behind the last item, so that `place` needs no item to be read again. Throws
  /// what the source throws; also where it has failed before, and cannot be opened anew behind what was read.
  void take_cursor();
  [[nodiscard]] const SourceProgress& place() const noexcept { return place_; }
  /// Adds those that were pending and not read yet.
  void add_pending(PendingItems& out) const;

 private:
  bool read_source(std::vector<std::byte>& out);

  const StreamSource* source_;
  const RecordLayout* layout_;
  std::int64_t epoch_;
  SourceProgress place_;
  PendingItems pending_;
  std::size_t next_pending_ = 0;
  Reading reading_;
  WorkerInstances instances_;          // outliving the reader that uses it
  std::optional<ShardReader> reader_;  // at place_, where it was opened
};

}  // namespace rota::internal
