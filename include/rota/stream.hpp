#pragma once

// Data without an index: logical shards that are read in sequence, and transforms inside a shard's stream. So
// all state belongs to a shard. Next: stream_loader.hpp.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rota/dtype.hpp"
#include "rota/fingerprint.hpp"
#include "rota/source.hpp"
#include "rota/types.hpp"

namespace rota {

namespace internal {
class SampleMemory;
}

/// One sample, and its memory, which is reused for the next: its own, or a batch's. It cannot be copied or
/// moved: keep samples behind pointers, and use `copy`. Throws Error{out_of_range} for an invalid field. *One
/// thread.*
class StreamSample {
 public:
  /// A sample of these fields with memory of its own. Ragged fields have no rows. Throws
  /// Error{invalid_argument} for fields that no source can have, Error{io} without memory.
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

  /// Gives ragged field f `rows` rows, and returns its bytes, which are unspecified. Throws Error{callback}
  /// for an impossible number.
  std::span<std::byte> resize(std::size_t f, std::int64_t rows);
  /// Copies `bytes` into field f. Throws Error{callback} unless they are whole rows, one if it is fixed.
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

/// A position between two samples of a shard's stream: numbers, which go into a tensor, and bytes, which do
/// not.
struct StreamCursor {
  std::vector<std::int64_t> numbers = {};  ///< StreamSource::cursor_numbers() of them; none: the start
  std::string blob = {};
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

  /// Reads the next sample into `out`, with an id: `input` is the unique number of its record in the shard,
  /// `output` 0. The loader sets the shard, and checks no id. False at the end of the shard, and ever after.
  /// Blocks on storage. Throws Error{io}, Error{corrupt}; the stream is then not used any more.
  virtual bool next(StreamSample& out) = 0;

  /// The position behind the last sample that `next` yielded. A stream opened there yields exactly the
  /// samples that this one would. `out` may have any content; its memory is reused.
  virtual void cursor(StreamCursor& out) const = 0;
};

/// L logical shards, each a stream of samples that is the same at every reading. *Immutable.* Your own
/// overrides `fields`, `shards`, `cursor_numbers` and `open`.
class StreamSource {
 public:
  StreamSource() = default;
  virtual ~StreamSource() = default;
  StreamSource(const StreamSource&) = delete;
  StreamSource& operator=(const StreamSource&) = delete;

  /// The fields of every sample, in declared order. Constant.
  [[nodiscard]] virtual const std::vector<Field>& fields() const = 0;

  /// L, fixed for a run: 1 to 2^24. Ranks own whole shards: with fewer than ranks x workers, some have
  /// nothing to do. Whoever takes a source asks once for fields, shards and cursor numbers, and throws
  /// Error{callback} for impossible ones.
  [[nodiscard]] virtual std::int64_t shards() const = 0;

  /// The number of numbers in a cursor; 1 to 65,536.
  [[nodiscard]] virtual std::int64_t cursor_numbers() const = 0;

  /// Opens shard `shard` in `epoch` at `cursor`, which a stream of this shard and epoch gave. Any thread.
  /// Throws Error{io}, Error{corrupt} for an impossible cursor.
  [[nodiscard]] virtual std::unique_ptr<ShardStream> open(ShardId shard, std::int64_t epoch,
                                                          const StreamCursor& cursor) const = 0;

  /// As Source::for_worker, of a StreamLoader. The worker's thread calls it again when its shards have
  /// changed: after a restore, and after an epoch that was restored into another world. It alone then opens
  /// shards of the instance, reads them, and destroys streams and instance.
  [[nodiscard]] virtual std::unique_ptr<const StreamSource> for_worker(const WorkerInfo& worker) const;

  /// About how many samples of `shard` are left behind `cursor`; empty (the default): unknown; below 0 counts
  /// as 0. Shards are distributed to ranks by it. Any thread. Throws Error{io}.
  [[nodiscard]] virtual std::optional<std::int64_t> remaining(ShardId shard,
                                                              const StreamCursor& cursor) const;

  /// As Source::fingerprint. The default digests fields(), shards() and cursor_numbers().
  [[nodiscard]] virtual Fingerprint fingerprint() const;

  /// The file, or other origin, of `shard`, for error messages; may be empty. Any thread.
  [[nodiscard]] virtual std::string where(ShardId shard) const;
};

/// The samples of an indexed source, in order of their ids. Shard s has the samples that the source's
/// `shard_lengths` give it, else an equal share. A cursor is one number: input i is the shard's sample i.
/// Samples of up to 8 KiB are read a few at a time, in memory of 16 KiB a shard and 4 MiB in all. Shards take
/// turns: of files in shared memory (CatalogOptions::share_files), all are needed at a time. Throws
/// Error{invalid_argument} for a null source and unless `shards` is 1 to 2^24; Error{callback} for an
/// impossible size, fields or shard lengths.
std::shared_ptr<const StreamSource> as_stream(std::shared_ptr<const Source> source, std::int64_t shards);

// ---- transforms ----
//
// A transform is a StreamSource made of another. Its state goes into the cursor, behind the other's. Its
// function is called on *any thread*. After a resume it may be called again for a sample, and must then do
// the same. `name` says what it does, with a version. It goes into the fingerprint: a checkpoint of another
// function is refused. Errors of the function reach StreamLoader::next.

/// Whether a sample is kept.
using KeepFunction = std::function<bool(std::int64_t epoch, const StreamSample& sample)>;

/// The samples that `keep` keeps. Throws Error{invalid_argument} for a null source or an empty function.
std::shared_ptr<const StreamSource> filter(std::shared_ptr<const StreamSource> source, KeepFunction keep,
                                           std::string name = {});

/// The output of a one-to-many function.
class StreamOutputs {
 public:
  explicit StreamOutputs(std::span<const Field> fields) : fields_(fields) {}

  /// Adds a sample to fill. Its fixed fields are unspecified, its ragged ones have no rows. Its id is set
  /// when the function has returned.
  StreamSample& add();

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] StreamSample& operator[](std::int64_t i) noexcept {
    return *samples_[static_cast<std::size_t>(i)];
  }
  void clear() noexcept { size_ = 0; }

 private:
  std::span<const Field> fields_;
  std::vector<std::unique_ptr<StreamSample>> samples_;  // size_ in use; the rest are reused
  std::int64_t size_ = 0;
};

/// Makes any number of samples of one.
using FlatMapFunction =
    std::function<void(std::int64_t epoch, const StreamSample& sample, StreamOutputs& outputs)>;

/// Options of `flat_map`.
struct FlatMapOptions {
  std::vector<Field> fields = {};  ///< of the new samples, with a source's limits; none: the source's
  std::string name = {};
  /// The most samples made of one. Output k of a sample with `output` j gets the number j x `most` + k, so
  /// ids stay unique when `flat_map` is applied again.
  std::int64_t most = std::int64_t{1} << 20;
};

/// The samples that `make` makes of each sample, one after the other. A save in the midst of a sample stores
/// that sample. Throws Error{invalid_argument} for a null source, an empty function or `most` below 1. Its
/// streams throw Error{callback} where one sample becomes more than `most`.
std::shared_ptr<const StreamSource> flat_map(std::shared_ptr<const StreamSource> source, FlatMapFunction make,
                                             FlatMapOptions options = {});

/// The samples of each shard, mixed by a buffer of `size` samples. When the buffer is full, a hash of (seed,
/// epoch, shard, number of the draw) draws one, and the next sample replaces it. So the first one waits for
/// `size` reads. A save stores the buffer. Throws Error{invalid_argument} for a null source or a `size` below
/// 1.
std::shared_ptr<const StreamSource> shuffle_buffer(std::shared_ptr<const StreamSource> source,
                                                   std::int64_t size, std::uint64_t seed);

}  // namespace rota
