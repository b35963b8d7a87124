#pragma once

// Functions that a loader runs on what it reads: on every sample (Transform), and on every batch (Collate).
// Next: loader_options.hpp.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "rota/batch.hpp"
#include "rota/source.hpp"
#include "rota/types.hpp"

namespace rota {

namespace internal {
class BatchMaker;
class FieldStore;
class MadeRows;
}  // namespace internal

/// What a transform is told about its sample. `key` is a hash of seed, epoch and id: random augmentation that
/// draws from it repeats at any world size and after any resume.
struct TransformContext {
  std::int64_t epoch = 0;
  SampleId id = {};
  std::uint64_t key = 0;
};

/// One sample: its fields, and the bytes of each.
struct SampleView {
  std::span<const Field> fields;
  std::span<const std::span<std::byte>> bytes;
  /// Field f as elements of T, which must be its type, as for Tensor::as. Throws Error{mismatch} where it is
  /// not, Error{out_of_range} for a field that there is not.
  template <typename T>
  [[nodiscard]] std::span<T> as(std::size_t f) const {
    if (f >= fields.size()) [[unlikely]]
      internal::refuse_field(f, fields.size());
    return Tensor{.field = &fields[f], .bytes = bytes[f]}.as<T>();
  }
};

/// The sample that a transform makes. A fixed field has its memory, of unspecified content. A ragged field
/// has no rows until `resize` gives it some. Views end with the call of the transform. *One thread.*
class SampleOutput {
 public:
  [[nodiscard]] std::span<const Field> fields() const noexcept { return fields_; }
  /// The bytes of field f, of all its rows. Throws Error{out_of_range} for a field that there is not.
  [[nodiscard]] std::span<std::byte> bytes(std::size_t f) const {
    if (f >= fields_.size()) [[unlikely]]
      internal::refuse_field(f, fields_.size());
    return bytes_[f];
  }
  /// Field f as elements of T. Throws as Tensor::as does, and as `bytes`.
  template <typename T>
  [[nodiscard]] std::span<T> as(std::size_t f) const {
    const std::span<std::byte> all = bytes(f);
    return Tensor{.field = &fields_[f], .bytes = all}.as<T>();
  }
  /// Gives ragged field f `rows` rows, and returns all its bytes. The first rows keep their bytes; new ones
  /// are unspecified. May be called again: take room for the most, and give back what was not needed. Earlier
  /// views of the field end. Throws Error{callback} for a number below 0 or beyond all memory, for a fixed
  /// field, and where Transform::fields is empty; Error{out_of_range} for a field that there is not.
  std::span<std::byte> resize(std::size_t f, std::int64_t rows);
  template <typename T>
  std::span<T> resize(std::size_t f, std::int64_t rows) {
    resize(f, rows);
    return as<T>(f);
  }

 private:
  friend class internal::BatchMaker;
  SampleOutput(std::span<const Field> fields, std::span<std::span<std::byte>> bytes,
               internal::MadeRows* rows) noexcept
      : fields_(fields), bytes_(bytes), rows_(rows) {}

  std::span<const Field> fields_;
  std::span<std::span<std::byte>> bytes_;
  internal::MadeRows* rows_;  // null where no field can be resized
};

/// A function run on every sample, in the worker that read it: decoding, augmentation, tokenising. *Any
/// thread*, so it must not share state unguarded. What it throws reaches `next()`, unless BadSamples has the
/// sample skipped.
struct Transform {
  std::function<void(const TransformContext& context, const SampleView& in, SampleOutput& out)> apply = {};
  /// The fields that it makes, fixed or ragged, as a source's may be. Empty: it changes the source's fields
  /// in place, `in` and `out` being the same memory.
  std::vector<Field> fields = {};
};

/// The batch that a Collate makes: as many samples as the one it is made of. A fixed field [size, shape...]
/// has its memory, of unspecified content. A ragged field has no rows until `resize` gives it some. *One
/// thread.*
class BatchOutput {
 public:
  [[nodiscard]] std::span<const Field> fields() const noexcept;
  /// All bytes of field f. Throws Error{out_of_range} for a field that there is not.
  [[nodiscard]] std::span<std::byte> bytes(std::size_t f) const;
  /// Field f as elements of T. Throws as Tensor::as does, and as `bytes`.
  template <typename T>
  [[nodiscard]] std::span<T> as(std::size_t f) const {
    const std::span<std::byte> all = bytes(f);
    return Tensor{.field = &fields()[f], .bytes = all}.as<T>();
  }
  /// Gives every sample `rows` rows of ragged field f: a dense [size, rows, shape...]. Returns its bytes,
  /// which are unspecified. Throws as SampleOutput::resize does.
  std::span<std::byte> resize(std::size_t f, std::int64_t rows);
  template <typename T>
  std::span<T> resize(std::size_t f, std::int64_t rows) {
    resize(f, rows);
    return as<T>(f);
  }
  /// Gives sample i rows[i] rows. Throws the same, and Error{callback} unless it is one number for each.
  std::span<std::byte> resize(std::size_t f, std::span<const std::int64_t> rows);

 private:
  friend class internal::BatchMaker;
  explicit BatchOutput(internal::FieldStore& store) noexcept : store_(store) {}

  internal::FieldStore& store_;
};

/// A function run on every batch of this rank, once its samples are read and transformed: padding to the
/// longest of them, say. It runs in a worker, or in `next()` where there are none; *any thread*. It is not
/// called for a batch without samples. Slots, ids and kinds stay as they are; skipped slots are in the batch.
/// What it throws reaches `next()` as an Error that names the step.
struct Collate {
  std::function<void(const Batch& in, BatchOutput& out)> apply = {};
  /// The fields that it makes, fixed or ragged, as a source's may be.
  std::vector<Field> fields = {};
};

}  // namespace rota
