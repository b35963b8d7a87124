#pragma once

// Where samples come from: the interface that every format, and a user's own source, implements. Next:
// packing.hpp, windows.hpp.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rota/dtype.hpp"
#include "rota/fingerprint.hpp"
#include "rota/types.hpp"
#include "rota/worker.hpp"

namespace rota {

namespace internal {
class NodeFiles;
}

/// One named tensor of a sample. A fixed field has `shape` in every sample ({} is a scalar). A ragged one has
/// [rows, shape...], where the number of rows differs from sample to sample.
///
/// Extents are 0 or more. The fields of a source have different names, are at most 4,096, and one row of each
/// of them takes at most 2^50 bytes, all together; so does a tensor of a batch.
struct Field {
  std::string name = {};
  DType dtype = DType::uint8;
  std::vector<std::int64_t> shape = {};
  bool ragged = false;

  /// Bytes of a fixed field's sample, or of one row of a ragged field.
  [[nodiscard]] std::size_t row_bytes() const noexcept;
  friend bool operator==(const Field&, const Field&) = default;
};

/// Memory that a Source fills: per field, one stretch of bytes per sample, side by side. *Any thread* may
/// fill samples of its own.
class BatchView {
 public:
  /// One field's memory, in rows of `row_bytes`: sample i takes rows [offsets[i], offsets[i + 1]) of `data`,
  /// or row i where there are no offsets.
  struct FieldMemory {
    std::byte* data = nullptr;
    std::size_t row_bytes = 0;
    const std::int64_t* offsets = nullptr;
  };

  BatchView(std::span<const FieldMemory> fields, std::size_t first, std::size_t size) noexcept
      : fields_(fields), first_(first), size_(size) {}

  /// Samples to fill.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// Where sample i's bytes of field f belong, of exactly the size they must have.
  [[nodiscard]] std::span<std::byte> bytes(std::size_t f, std::size_t i) const noexcept {
    return range(f, i, 1);
  }
  /// All samples of field f, side by side.
  [[nodiscard]] std::span<std::byte> all(std::size_t f) const noexcept { return range(f, 0, size_); }

  /// The samples [first, first + count) of this view.
  [[nodiscard]] BatchView part(std::size_t first, std::size_t count) const noexcept {
    return {fields_, first_ + first, count};
  }

 private:
  [[nodiscard]] std::span<std::byte> range(std::size_t f, std::size_t i, std::size_t count) const noexcept {
    const FieldMemory& memory = fields_[f];
    std::size_t begin = first_ + i;
    std::size_t rows = count;
    if (memory.offsets != nullptr) {
      rows = static_cast<std::size_t>(memory.offsets[begin + count] - memory.offsets[begin]);
      begin = static_cast<std::size_t>(memory.offsets[begin]);
    }
    return {memory.data + begin * memory.row_bytes, rows * memory.row_bytes};
  }

  std::span<const FieldMemory> fields_;
  std::size_t first_;
  std::size_t size_;
};

/// Rows [first, first + count) of a ragged field of one sample, and the count x Field::row_bytes() bytes of
/// memory where they belong.
struct SampleRows {
  SampleId id = {};
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::byte* to = nullptr;
};

/// What was fetched into shared memory: unpacked, or copied.
struct Fetched {
  std::int64_t files = 0;
  std::int64_t bytes = 0;  ///< in memory
};

/// A dataset of N samples that can be read by id, in any order, by many threads at once. *Immutable.*
///
/// Your own source overrides `size`, `fields` and `read`, and `rows` if a field is ragged; `read_rows` too if
/// its samples are long, and parts of them are read (pack, in packing.hpp).
class Source {
 public:
  Source() = default;
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  /// N, the number of samples: 0 to 2^62, the same for the life of the source. What takes a source asks it
  /// once, and throws Error{callback} for a size, fields, rows or lengths that cannot be.
  [[nodiscard]] virtual std::int64_t size() const = 0;

  /// The fields of every sample, in declared order; the same for the life of the source.
  [[nodiscard]] virtual const std::vector<Field>& fields() const = 0;

  /// How many rows ragged field `field` has in each of `ids`, into out[0, ids.size()). Any thread. Called
  /// only for ragged fields, just before `read`. Throws Error{out_of_range} for an id >= size(), Error{io},
  /// Error{corrupt}; `out` is then unspecified.
  virtual void rows(std::span<const SampleId> ids, std::size_t field, std::span<std::int64_t> out) const;

  /// Reads the samples named by `ids` into `out`, in that order: one tensor per field, row major, native byte
  /// order. Blocks on storage. Any thread. Throws Error{out_of_range} for an id >= size(), Error{io},
  /// Error{corrupt} naming file and byte offset; `out` is then unspecified. A Loader reads again, sample by
  /// sample, to find out which it was: Error{corrupt} is for what will never be read, and may be skipped,
  /// Error{io} for what may be read at the next try (see BadSamples).
  virtual void read(std::span<const SampleId> ids, const BatchView& out) const = 0;

  /// Reads parts of samples: rows of ragged field `field`, each straight into the memory where it belongs.
  /// Blocks on storage. Any thread. By default reads all of each sample, and copies. Throws as `read` does,
  /// and Error{out_of_range} for rows that a sample has not; the memory is then unspecified.
  virtual void read_rows(std::span<const SampleRows> wanted, std::size_t field) const;

  /// An instance for one worker of a Loader alone, which may hold what threads must not share: a connection,
  /// a decoder. Called by the worker itself before it reads, and again after a rescale; null (the default)
  /// where all of them share this one. `rows`, `read` and `read_rows` are then called on the instance, by
  /// that thread only, in which it also ends; all else is asked of this one, which outlives it. Any thread.
  /// What it throws reaches Loader::next as a failed read does.
  [[nodiscard]] virtual std::unique_ptr<const Source> for_worker(const WorkerInfo& worker) const;

  /// What this dataset is, the same on all ranks: a checkpoint of another is refused. By default, a digest of
  /// size() and fields(); a source that knows more (names, sizes) adds it.
  [[nodiscard]] virtual Fingerprint fingerprint() const;

  /// The file, or other place, that holds sample `id`, for error messages; may be empty. Any thread.
  [[nodiscard]] virtual std::string where(SampleId id) const;

  /// How many samples each part, such as a file, has, in order, with sum size(); empty where all is one part,
  /// or is not known. Samples follow one another inside a part; whether the first of one follows the last of
  /// the part before is for who made the data to say.
  [[nodiscard]] virtual std::vector<std::int64_t> part_sizes() const;

  /// Lengths of `shards` logical shards that suit this source, in order, with sum size(); empty for equal
  /// ones.
  [[nodiscard]] virtual std::vector<std::int64_t> shard_lengths(std::int64_t shards) const;

  /// For rota's own sources: the files that the ranks of a node share in memory; null where there are none.
  [[nodiscard]] virtual const internal::NodeFiles* node_files() const { return nullptr; }
};

/// A source made of another one: it forwards everything, and your own overrides what it changes. Lines in
/// lower case, say: override `read` and `wrap`. Only `read_rows` is not forwarded, for it would miss what
/// `read` changes: it calls `read`, and copies.
///
/// Files that ranks share in memory stay shared. One of another size does not forward `part_sizes` and
/// `shard_lengths`, and cannot be read where files are shared in memory, as `split` cannot. One with other
/// content overrides `fingerprint`, so that a checkpoint of the other is refused.
class SourceAdaptor : public Source {
 public:
  /// Throws Error{invalid_argument} for no source (a null pointer).
  explicit SourceAdaptor(std::shared_ptr<const Source> inner);
  ~SourceAdaptor() override;

  [[nodiscard]] std::int64_t size() const override { return inner_->size(); }
  [[nodiscard]] const std::vector<Field>& fields() const override { return inner_->fields(); }
  void rows(std::span<const SampleId> ids, std::size_t field, std::span<std::int64_t> out) const override;
  void read(std::span<const SampleId> ids, const BatchView& out) const override { inner_->read(ids, out); }
  /// `wrap` of what the inner source makes; null where it makes nothing.
  [[nodiscard]] std::unique_ptr<const Source> for_worker(const WorkerInfo& worker) const override;
  [[nodiscard]] Fingerprint fingerprint() const override { return inner_->fingerprint(); }
  [[nodiscard]] std::string where(SampleId id) const override { return inner_->where(id); }
  [[nodiscard]] std::vector<std::int64_t> part_sizes() const override;
  [[nodiscard]] std::vector<std::int64_t> shard_lengths(std::int64_t shards) const override;
  [[nodiscard]] const internal::NodeFiles* node_files() const override;

 protected:
  [[nodiscard]] const Source& inner() const noexcept { return *inner_; }
  /// The same adaptor around `inner`, an instance of its source for one worker.
  [[nodiscard]] virtual std::unique_ptr<const Source> wrap(std::shared_ptr<const Source> inner) const = 0;

 private:
  std::shared_ptr<const Source> inner_;
  std::unique_ptr<const internal::NodeFiles> scattered_;  // of one of another size
};

/// Throws Error{out_of_range} unless every id is in [0, source.size()).
void check_ids(const Source& source, std::span<const SampleId> ids);
void check_ids(const Source& source, std::span<const SampleRows> wanted);
/// Throws Error{out_of_range} unless `wanted` are some of the `rows` rows that its sample has.
void check_rows(const SampleRows& wanted, std::int64_t rows);

/// The samples of all `sources`, which have the same fields, one source after the other. O(sources) memory.
/// Throws Error{invalid_argument} naming the fields that differ, for no source, for a null one, and for more
/// than 2^62 samples; Error{callback} for a size or fields that cannot be.
std::shared_ptr<const Source> join(std::vector<std::shared_ptr<const Source>> sources);

/// Splits a dataset at random into parts, for training and validation, say: part k gets its `fractions[k]` of
/// the samples (sizes by rounding the running sum, so that they add up). The same seed gives the same parts
/// at any world. O(1) memory. Throws Error{invalid_argument} for a null source, and unless every fraction is
/// >= 0 and their sum is 1 (within 1e-9); Error{callback} for a size or fields that cannot be.
std::vector<std::shared_ptr<const Source>> split(const std::shared_ptr<const Source>& source,
                                                 std::span<const double> fractions, std::uint64_t seed);

}  // namespace rota
