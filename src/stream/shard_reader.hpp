#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "loader/batch_memory.hpp"
#include "rota/stream.hpp"

namespace rota::internal {

/// How far a shard is consumed in an epoch.
struct ShardProgress {
  ShardId shard;
  bool is_done = false;       // its end was seen
  std::int64_t position = 0;  // samples delivered
  std::int64_t skip = 0;      // samples delivered since `cursor`
  StreamCursor cursor;

  /// Moves on by a sample; to `behind` it, where there is such a cursor, which is taken.
  void advance(StreamCursor* behind) noexcept;
  /// Takes the cursor of where it is.
  void take(StreamCursor& here) noexcept;
  void end() noexcept;
};

/// Where the bytes of a sample's fixed fields go; those of ragged fields are always in memory of its own.
class SampleMemory {
 public:
  /// Into those of slot `i` of `batch`.
  static void lend(StreamSample& sample, const BatchView& batch, std::size_t i) noexcept;
  /// Into memory of its own.
  static void own(StreamSample& sample);
  /// Gives back memory of its own that is long: it is kept for none but those that are short.
  static void forget(StreamSample& sample) noexcept;
};

/// A sample that was read, if there was one, and where its shard's stream was behind it.
struct Reading {
  explicit Reading(std::span<const Field> fields) : sample(fields) {}
  /// Bytes that are not those of fixed fields.
  [[nodiscard]] std::int64_t extra_bytes(std::span<const Field> fields) const noexcept;
  /// Puts all but the rows of ragged fields into slot i of `batch`, of which their number is noted. The
  /// sample is in memory of its own, or in a slot of such a batch that is not before this one.
  void copy_fixed(BatchMemory& batch, std::size_t i) const noexcept;
  /// The rows, once the batch has memory for them.
  void copy_ragged(BatchMemory& batch, std::size_t i) const noexcept;

  StreamSample sample;
  bool is_there = false;
  std::int64_t position = 0;
  bool has_cursor = false;
  StreamCursor cursor;  // where it has one
};

/// Reads a shard on from a place. *One thread* at a time.
///
/// A cursor is taken when as many bytes were read since the last one as that has: behind each sample where
/// cursors are short, and at no more cost than the reading where they are long.
class ShardReader {
 public:
  ShardReader(const StreamSource& source, std::int64_t epoch, ShardProgress at)
      : source_(&source), epoch_(epoch), at_(std::move(at)) {}

  /// The next sample, of a stream that `source` opens; false at the end. Throws Error naming the shard.
  bool read(const StreamSource& source, Reading& out);
  /// Takes out.cursor: where its stream, which `source` opens, is behind the sample that was read last.
  /// Throws as `read`.
  void take_cursor(const StreamSource& source, Reading& out);

 private:
  void open(const StreamSource& source, Reading& out);
  bool read_on(Reading& out);
  void ask_cursor(StreamCursor& out);
  [[noreturn]] void rethrow() const;

  const StreamSource* source_;
  std::int64_t epoch_;
  ShardProgress at_;
  std::unique_ptr<ShardStream> stream_;  // from the first sample to the last
  bool is_over_ = false;
  std::size_t since_cursor_ = 0;  // bytes
  std::size_t cursor_bytes_ = 0;  // of the last one
};

}  // namespace rota::internal
