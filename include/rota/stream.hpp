#pragma once

// Data that cannot be indexed: logical shards that are read from their beginning on, and transforms that
// live inside a shard's stream, so that all state belongs to a shard. Next: stream_loader.hpp.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rota/dtype.hpp"
#include "rota/fingerprint.hpp"
#include "rota/source.hpp"
#include "rota/types.hpp"

namespace rota {

/// Which sample of an epoch this is: made from record `input` of shard `shard`, as number `output` of the
/// samples made from it (0 where it is the only one).
struct StreamId {
  ShardId shard;
  std::int64_t input = 0;
  std::int64_t output = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): the zero that it sees is the compiler's
  friend auto operator<=>(const StreamId&, const StreamId&) = default;
};

/// "shard:input:output", such as "3:1041:0", and back. `parse_stream_id` throws Error{invalid_argument} for
/// any other text.
std::string to_string(const StreamId& id);
StreamId parse_stream_id(std::string_view text);

namespace internal {
class SampleMemory;
}

/// One sample, and memory for it that is reused for the next: its own, or that of the batch it goes into. So
/// it can be neither copied nor moved; keep samples behind pointers, and `copy` them where they are handed
/// out. Throws Error{out_of_range} for a field that there is not. *One thread.*
class StreamSample {
 public:
  /// Memory of its own for samples of these fields. A ragged field has no rows at first. Throws
  /// Error{invalid_argument} for fields that no source can have, Error{io} where there is no memory.
  explicit StreamSample(std::span<const Field> fields);
  StreamSample(const StreamSample&) = delete;
  StreamSample& operator=(const StreamSample&) = delete;

  [[nodiscard]] const StreamId& id() const noexcept { return id_; }
  void set_id(const StreamId& id) noexcept { id_ = id; }

  /// Number of fields.
  [[nodiscard]] std::size_t size() const noexcept { return slots_.size(); }
  /// Rows of field f; 1 where it is fixed.
  [[nodiscard]] std::int64_t rows(std::size_t f) const { return slot(f).rows; }
  [[nodiscard]] std::span<std::byte> bytes(std::size_t f) { return {slot(f).data, slot(f).used()}; }
  [[nodiscard]] std::span<const std::byte> bytes(std::size_t f) const {
    return {slot(f).data, slot(f).used()};
  }
  /// Field f as elements of T. Throws as Tensor::as does.
  template <typename T>
  [[nodiscard]] std::span<const T> as(std::size_t f) const {
    const FieldSlot& from = slot(f);
    if (!internal::is_viewable_as<T>(from.dtype)) [[unlikely]] {
      internal::refuse_view(from.name, from.dtype, kDTypeOf<T>);
    }
    return {reinterpret_cast<const T*>(from.data), from.used() / sizeof(T)};
  }
  /// Bytes of all fields.
  [[nodiscard]] std::size_t total_bytes() const noexcept;

  /// Gives ragged field f so many rows, and returns its bytes, which are unspecified. Throws Error{callback}
  /// for a number below 0 or beyond all memory.
  std::span<std::byte> resize(std::size_t f, std::int64_t rows);
  /// Copies `bytes` into field f. Throws Error{callback} where they are not what it holds: whole rows where
  /// it is ragged, else one.
  void set(std::size_t f, std::span<const std::byte> bytes);
  /// Copies another sample of the same fields, its id included.
  void copy(const StreamSample& other);

 private:
  friend class internal::SampleMemory;
  struct FieldSlot {
    std::string name;
    std::size_t row_bytes = 0;
    DType dtype = DType::uint8;
    bool ragged = false;
    std::int64_t rows = 0;
    std::byte* data = nullptr;
    std::size_t capacity = 0;
    std::unique_ptr<std::byte[]> own;
    [[nodiscard]] std::size_t used() const noexcept { return static_cast<std::size_t>(rows) * row_bytes; }
    void reserve(std::size_t bytes);
  };
  [[nodiscard]] const FieldSlot& slot(std::size_t f) const {
    if (f >= slots_.size()) [[unlikely]]
      internal::refuse_field(f, slots_.size());
    return slots_[f];
  }
  StreamId id_;
  std::vector<FieldSlot> slots_;
};

/// A place in a shard's stream, between two samples: numbers that go into a tensor, and bytes that do not.
struct StreamCursor {
  std::vector<std::int64_t> numbers = {};  ///< StreamSource::cursor_numbers() of them; none: the beginning
  std::string blob = {};
  /// Whether this is the beginning of the shard.
  [[nodiscard]] bool is_start() const noexcept { return numbers.empty(); }
  friend bool operator==(const StreamCursor&, const StreamCursor&) = default;
};

/// One shard being read in one epoch. *One thread* at a time.
class ShardStream {
 public:
  ShardStream() = default;
  virtual ~ShardStream() = default;
  ShardStream(const ShardStream&) = delete;
  ShardStream& operator=(const ShardStream&) = delete;

  /// Reads the next sample into `out`, its id included: `input` is the number of its record in the shard,
  /// another for each, and `output` 0; the loader sets the shard, and checks no id. False at the end of the
  /// shard, and ever after. Blocks
  /// on storage. Throws Error{io}, Error{corrupt}; the stream is then not used any more.
  virtual bool next(StreamSample& out) = 0;

  /// Where the stream is: behind the sample that `next` yielded last. A stream opened there yields the very
  /// samples that this one goes on with. `out` may hold anything; its memory is reused.
  virtual void cursor(StreamCursor& out) const = 0;
};

/// L logical shards, each of them a stream of samples that is the same whenever it is read. *Immutable*.
///
/// Your own overrides `fields`, `shards`, `cursor_numbers` and `open`.
class StreamSource {
 public:
  StreamSource() = default;
  virtual ~StreamSource() = default;
  StreamSource(const StreamSource&) = delete;
  StreamSource& operator=(const StreamSource&) = delete;

  /// The fields of every sample, in declared order; the same for the life of the source.
  [[nodiscard]] virtual const std::vector<Field>& fields() const = 0;

  /// L, fixed for a run: 1 to 2^24. Ranks own whole shards: with fewer than ranks x workers some have
  /// nothing to do. What takes a source asks it once for fields, shards and cursor numbers, and throws
  /// Error{callback} for those that cannot be.
  [[nodiscard]] virtual std::int64_t shards() const = 0;

  /// How many numbers a cursor has; 1 to 65,536.
  [[nodiscard]] virtual std::int64_t cursor_numbers() const = 0;

  /// Shard `shard` in `epoch`, from `cursor` on, one that a stream of this shard and epoch gave. Any thread.
  /// Throws Error{io}, Error{corrupt} for a cursor that cannot be one of this shard.
  [[nodiscard]] virtual std::unique_ptr<ShardStream> open(ShardId shard, std::int64_t epoch,
                                                          const StreamCursor& cursor) const = 0;

  /// An instance for one worker of a StreamLoader alone, which may hold what threads must not share: a
  /// connection, a decoder. Called by the worker itself before it reads, and again where its shards have
  /// changed: after a restore, and where the epoch ends that was restored into another world. Null (the
  /// default) where all of them share this one. Shards are then opened by the instance, and these streams
  /// read, by that thread only, in which they and then the instance end; all else is asked of this one, which
  /// outlives them. Any thread. What it throws reaches StreamLoader::next as a failed read does.
  [[nodiscard]] virtual std::unique_ptr<const StreamSource> for_worker(const WorkerInfo& worker) const;

  /// About how many samples are left in `shard` behind `cursor`, by which shards are shared out to ranks;
  /// nothing (the default) where that is not known; below 0 counts as 0. Any thread. Throws Error{io}.
  [[nodiscard]] virtual std::optional<std::int64_t> remaining(ShardId shard,
                                                              const StreamCursor& cursor) const;

  /// What this dataset is, the same on all ranks: a checkpoint of another is refused. By default, a digest of
  /// fields(), shards() and cursor_numbers(); a source that knows more (names, sizes) adds it.
  [[nodiscard]] virtual Fingerprint fingerprint() const;

  /// The file, or other place, that holds `shard`, for error messages; may be empty. Any thread.
  [[nodiscard]] virtual std::string where(ShardId shard) const;
};

/// The samples of an indexed source, in order of their ids: shard s has those that the source's own
/// `shard_lengths` give it, else an equal share. Input i is the shard's sample i; a cursor is that number.
/// Samples of up to 8 KiB are read a few at a time, in memory of 16 KiB a shard and 4 MiB in all. Shards take
/// turns, so that of a source whose files are shared in memory (CatalogOptions::share_files) all are wanted
/// at a time. Throws Error{invalid_argument} for no source and unless `shards` is 1 to 2^24, Error{callback}
/// for a size, fields or shard lengths that cannot be.
std::shared_ptr<const StreamSource> as_stream(std::shared_ptr<const Source> source, std::int64_t shards);

// ---- transforms ----
//
// Each is a StreamSource made of another, whose state goes into the cursor behind the other's. Their
// functions are called from *any thread*, may be called again for a sample after a resume, and must then do
// the same. `name` says what a function does and in which version: it is part of the fingerprint, so that a
// checkpoint is refused where another function has taken its place. What they throw reaches
// StreamLoader::next.

/// Whether a sample is kept.
using KeepFunction = std::function<bool(std::int64_t epoch, const StreamSample& sample)>;

/// The samples of `source` that `keep` keeps. Throws Error{invalid_argument} for no source or no function.
std::shared_ptr<const StreamSource> filter(std::shared_ptr<const StreamSource> source, KeepFunction keep,
                                           std::string name = {});

/// Where a one-to-many function puts what it makes.
class StreamOutputs {
 public:
  explicit StreamOutputs(std::span<const Field> fields) : fields_(fields) {}

  /// Another sample, to be filled. Its fixed fields are unspecified, its ragged
  /// ones have no rows. Its id is set when the function has returned.
  StreamSample& add();

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] StreamSample& operator[](std::int64_t i) noexcept {
    return *samples_[static_cast<std::size_t>(i)];
  }
  void clear() noexcept { size_ = 0; }

 private:
  std::span<const Field> fields_;
  std::vector<std::unique_ptr<StreamSample>> samples_;  // more than size_, where there once were more
  std::int64_t size_ = 0;
};

/// Makes any number of samples of one.
using FlatMapFunction =
    std::function<void(std::int64_t epoch, const StreamSample& sample, StreamOutputs& outputs)>;

/// How samples are made of samples.
struct FlatMapOptions {
  std::vector<Field> fields = {};  ///< of what is made, as a source's may be; none: those of the source
  std::string name = {};
  /// Of one sample no more than so many may be made. Output k of what is itself output j of its input has the
  /// number j x `most` + k, so that ids stay apart however often `flat_map` is applied.
  std::int64_t most = std::int64_t{1} << 20;
};

/// What `make` makes of each sample of `source`, one after the other. Saved in the midst of a sample, its
/// state holds that sample. Throws Error{invalid_argument} for no source, no function or `most` below 1; its
/// streams throw Error{callback} for a sample of which more than `most` are made.
std::shared_ptr<const StreamSource> flat_map(std::shared_ptr<const StreamSource> source, FlatMapFunction make,
                                             FlatMapOptions options = {});

/// The samples of each shard of `source`, mixed by a buffer of `size` samples: it is filled, then one of it,
/// drawn by a hash of (seed, epoch, shard, number of the draw), is handed out and replaced by the next. The
/// first sample waits for `size` to be read. Its state holds the buffer. Throws Error{invalid_argument} for
/// no source or a `size` below 1.
std::shared_ptr<const StreamSource> shuffle_buffer(std::shared_ptr<const StreamSource> source,
                                                   std::int64_t size, std::uint64_t seed);

}  // namespace rota
