#pragma once

// Datasets: the interface that every format, and a user's own source, implements. Next: select.hpp,
// packing.hpp, windows.hpp.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
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
class PlannedSource;
}

/// One named tensor of a sample. A fixed field has `shape` in every sample ({} is a scalar). A ragged field
/// has [rows, shape...], and each sample has its own number of rows.
///
/// Extents are 0 or more. A source has at most 4,096 fields, with different names. One row of all fields
/// together takes at most 2^50 bytes; so does a tensor of a batch.
struct Field {
  std::string name = {};
  DType dtype = DType::uint8;
  std::vector<std::int64_t> shape = {};
  bool ragged = false;

  /// Bytes of a fixed field's sample, or of one row of a ragged field.
  [[nodiscard]] std::size_t row_bytes() const noexcept;
  friend bool operator==(const Field&, const Field&) = default;
};

/// The memory that a Source fills: for each field, the bytes of all samples side by side. *Any thread* may
/// fill samples of its own.
class BatchView {
 public:
  /// One field's memory, in rows of `row_bytes`. Sample i takes rows [offsets[i], offsets[i + 1]) of `data`,
  /// or row i where `offsets` is null.
  struct FieldMemory {
    std::byte* data = nullptr;
    std::size_t row_bytes = 0;
    const std::int64_t* offsets = nullptr;
  };

  /// `epochs`: of each of its samples; empty where nobody says.
  BatchView(std::span<const FieldMemory> fields, std::size_t first, std::size_t size,
            std::span<const std::int64_t> epochs = {}) noexcept
      : fields_(fields), first_(first), size_(size), epochs_(epochs) {}

  /// Samples to fill.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// The memory for field f of sample i, of exactly the size of its bytes.
  [[nodiscard]] std::span<std::byte> bytes(std::size_t f, std::size_t i) const noexcept {
    return range(f, i, 1);
  }
  /// All samples of field f, side by side.
  [[nodiscard]] std::span<std::byte> all(std::size_t f) const noexcept { return range(f, 0, size_); }

  /// The samples [first, first + count) of this view.
  [[nodiscard]] BatchView part(std::size_t first, std::size_t count) const noexcept {
    return {fields_, first_ + first, count, epochs_.empty() ? epochs_ : epochs_.subspan(first, count)};
  }

  /// Its fields [first, first + count), numbered from 0.
  [[nodiscard]] BatchView fields(std::size_t first, std::size_t count) const noexcept {
    return {fields_.subspan(first, count), first_, size_, epochs_};
  }

  /// The epoch for which a Loader reads sample i; 0 where nobody says. A source whose samples change with it
  /// uses this. An adaptor that reads into memory of its own hands `epochs` on.
  [[nodiscard]] std::int64_t epoch(std::size_t i) const noexcept { return epochs_.empty() ? 0 : epochs_[i]; }
  [[nodiscard]] std::span<const std::int64_t> epochs() const noexcept { return epochs_; }

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
  std::span<const std::int64_t> epochs_;
};

/// Rows [first, first + count) of a ragged field of one sample, and the memory for them: count x
/// Field::row_bytes() bytes.
struct SampleRows {
  SampleId id = {};
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::byte* to = nullptr;
};

/// A dataset of N samples. Many threads read it at once, by id, in any order. *Immutable.*
///
/// Your own source overrides `size`, `fields` and `read`. It overrides `rows` if a field is ragged. It
/// overrides `read_rows` if samples are long and are read in parts, as `pack` does.
class Source {
 public:
  Source() = default;
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  /// N, the number of samples: 0 to 2^62, constant. Asked once. Whoever takes a source throws Error{callback}
  /// for an impossible size, fields, rows or lengths.
  [[nodiscard]] virtual std::int64_t size() const = 0;

  /// The fields of every sample, in declared order. Constant.
  [[nodiscard]] virtual const std::vector<Field>& fields() const = 0;

  /// The number of rows of ragged field `field` in each of `ids`, into out[0, ids.size()). Any thread. Called
  /// only for ragged fields, just before `read`. Throws Error{out_of_range} for an id >= size(), Error{io},
  /// Error{corrupt}; `out` is then unspecified.
  virtual void rows(std::span<const SampleId> ids, std::size_t field, std::span<std::int64_t> out) const;

  /// Reads the samples `ids` into `out`, in that order. `out` holds one tensor per field, row major, in
  /// native byte order. Blocks on storage. Any thread. Throws Error{out_of_range} for an id >= size(), and
  /// the errors below, naming file and byte offset; `out` is then unspecified. A Loader then reads sample by
  /// sample, to find the bad one.
  /// - Error{corrupt}: the sample will never be readable. BadSamples may skip it.
  /// - Error{io}: the next try may succeed. BadSamples may retry.
  virtual void read(std::span<const SampleId> ids, const BatchView& out) const = 0;

  /// Reads rows of ragged field `field`, each range into its own memory. Blocks on storage. Any thread. The
  /// default reads whole samples, and copies. Throws as `read` does, and Error{out_of_range} for rows past a
  /// sample's end; the memory is then unspecified.
  virtual void read_rows(std::span<const SampleRows> wanted, std::size_t field) const;

  /// Makes an instance for one worker of a Loader, for state that threads cannot share: a connection, a
  /// decoder. Null (the default): all workers share this source. The worker's thread calls it before it
  /// reads, and again after a rescale. That thread alone then calls `rows`, `read` and `read_rows` of the
  /// instance, and destroys it. All other methods are called on this source, which outlives the instance. Any
  /// thread. Its errors reach Loader::next, as a failed read does.
  [[nodiscard]] virtual std::unique_ptr<const Source> for_worker(const WorkerInfo& worker) const;

  /// The identity of this dataset, the same on all ranks. A checkpoint of another dataset is refused. The
  /// default digests size() and fields(). Add what else you know, such as names and sizes.
  [[nodiscard]] virtual Fingerprint fingerprint() const;

  /// The file, or other origin, of sample `id`, for error messages; may be empty. Any thread.
  [[nodiscard]] virtual std::string where(SampleId /*id*/) const { return {}; }

  /// The number of samples of each part, such as a file, in order; their sum is size(). Empty: one part, or
  /// unknown. Samples of a part follow one another. Only the maker of the data knows whether parts do, too.
  [[nodiscard]] virtual std::vector<std::int64_t> part_sizes() const { return {}; }

  /// The same of each unit that is decoded as a whole, such as a chunk. Empty: none, or unknown.
  [[nodiscard]] virtual std::vector<std::int64_t> unit_sizes() const { return {}; }

  /// Lengths of `shards` logical shards that suit this source, in order; their sum is size(). Empty: equal.
  [[nodiscard]] virtual std::vector<std::int64_t> shard_lengths(std::int64_t /*shards*/) const { return {}; }

  /// Begins to bring samples [first, first + count) near, without waiting for them: a block of
  /// Shuffle::block, which is read in pieces soon after. Returns how many bytes these are, so that no more
  /// than `read_ahead_bytes` are brought; 0: it cannot. Any thread. What it throws is dropped: `read` will
  /// tell.
  [[nodiscard]] virtual std::int64_t will_read(SampleId /*first*/, std::int64_t /*count*/) const { return 0; }
};

/// A source made of another one. It forwards everything; override what you change. Example: for lines in
/// lower case, override `read` and `wrap`. Other content needs another `fingerprint`, so that checkpoints are
/// not mixed up.
///
/// Two things are not forwarded. `read_rows` calls `read`, and copies: otherwise it would miss your changes.
/// An adaptor of another size does not forward `part_sizes`, `unit_sizes`, `shard_lengths` and `will_read`;
/// like `split`, it cannot be read where files are in shared memory. Other adaptors can.
class SourceAdaptor : public Source {
 public:
  /// Throws Error{invalid_argument} for a null source.
  explicit SourceAdaptor(std::shared_ptr<const Source> inner);

  [[nodiscard]] std::int64_t size() const override { return inner_->size(); }
  [[nodiscard]] const std::vector<Field>& fields() const override { return inner_->fields(); }
  void rows(std::span<const SampleId> ids, std::size_t field, std::span<std::int64_t> out) const override;
  void read(std::span<const SampleId> ids, const BatchView& out) const override { inner_->read(ids, out); }
  /// `wrap` of the inner source's instance; null where that is null.
  [[nodiscard]] std::unique_ptr<const Source> for_worker(const WorkerInfo& worker) const override;
  [[nodiscard]] Fingerprint fingerprint() const override { return inner_->fingerprint(); }
  [[nodiscard]] std::string where(SampleId id) const override { return inner_->where(id); }
  [[nodiscard]] std::vector<std::int64_t> part_sizes() const override;
  [[nodiscard]] std::vector<std::int64_t> unit_sizes() const override;
  [[nodiscard]] std::vector<std::int64_t> shard_lengths(std::int64_t shards) const override;
  [[nodiscard]] std::int64_t will_read(SampleId first, std::int64_t count) const override;

 protected:
  [[nodiscard]] const Source& inner() const noexcept { return *inner_; }
  /// The same adaptor around `inner`, an instance of its source for one worker; never null.
  [[nodiscard]] virtual std::unique_ptr<const Source> wrap(std::shared_ptr<const Source> inner) const = 0;

 private:
  friend internal::PlannedSource;
  std::shared_ptr<const Source> inner_;
};

/// Throws Error{out_of_range} unless every id is in [0, source.size()).
void check_ids(const Source& source, std::span<const SampleId> ids);
void check_ids(const Source& source, std::span<const SampleRows> wanted);
/// Throws Error{out_of_range} unless `wanted` lies within the `rows` rows of its sample.
void check_rows(const SampleRows& wanted, std::int64_t rows);

/// The samples of all `sources`, one source after the other. O(sources) memory. Throws
/// Error{invalid_argument} for an empty list, a null source, more than 2^62 samples, and different fields
/// (naming them). Throws Error{callback} for an impossible size or fields.
std::shared_ptr<const Source> join(std::vector<std::shared_ptr<const Source>> sources);

/// Splits a dataset at random, for example into training and validation: part k gets `fractions[k]` of the
/// samples. Sizes are rounded from running sums, so they add up. The same seed gives the same parts in any
/// world. O(1) memory. Throws Error{invalid_argument} for a null source, a fraction below 0, and a sum that
/// is not 1 (within 1e-9). Throws Error{callback} for an impossible size or fields.
std::vector<std::shared_ptr<const Source>> split(const std::shared_ptr<const Source>& source,
                                                 std::span<const double> fractions, std::uint64_t seed);
inline std::vector<std::shared_ptr<const Source>> split(const std::shared_ptr<const Source>& source,
                                                        std::initializer_list<double> fractions,
                                                        std::uint64_t seed) {
  return split(source, std::span(fractions.begin(), fractions.size()), seed);
}

/// `source` with other element types in the fields that `types` names: cast(source, {{"tokens",
/// DType::int64}}). Whoever reads converts. Elements that grow are widened in place, without a copy. It is
/// the same dataset, with the same fingerprint.
///
/// Every value must survive: booleans become any number; integers become wider ones, and floats with enough
/// digits; floats become wider ones. Two casts round, to the nearest, ties to even: float64 to float32, and
/// any number to float16 and bfloat16. A sample with a value that is too large for that is Error{corrupt}
/// when it is read. Throws Error{invalid_argument} for a null source and for any other change of type,
/// Error{not_found} for a field that there is not, Error{callback} for an impossible size or fields.
std::shared_ptr<const Source> cast(const std::shared_ptr<const Source>& source,
                                   const std::map<std::string, DType>& types);

}  // namespace rota
