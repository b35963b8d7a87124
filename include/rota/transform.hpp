#pragma once

// Functions that a loader runs on every sample (Transform) and on every batch (Collate). Next:
// loader_options.hpp.

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

/// Facts for a transform about its sample. `key` is a hash of seed, epoch and id. Random augmentation that
/// draws from it repeats in any world, and after any resume.
struct TransformContext {
  std::int64_t epoch = 0;
  SampleId id = {};
  std::uint64_t key = 0;
};

/// One sample: its fields, and the bytes of each.
struct SampleView {
  std::span<const Field> fields;
  std::span<const std::span<std::byte>> bytes;
  /// Field f as elements of T, as by Tensor::as. Throws Error{mismatch} for another type, Error{out_of_range}
  /// for an invalid field.
  template <typename T>
  [[nodiscard]] std::span<T> as(std::size_t f) const {
    if (f >= fields.size()) [[unlikely]]
      internal::refuse_field(f, fields.size());
    return Tensor{.field = &fields[f], .bytes = bytes[f]}.as<T>();
  }
};

/// The sample that a transform makes. Fixed fields have memory, with unspecified content. Ragged fields have
/// no rows until `resize`. Views end with the call of the transform. *One thread.*
class SampleOutput {
 public:
  [[nodiscard]] std::span<const Field> fields() const noexcept { return fields_; }
  /// All bytes of field f. Throws Error{out_of_range} for an invalid field.
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
  /// Gives ragged field f `rows` rows, and returns all its bytes. Existing rows keep their bytes; new ones
  /// are unspecified. To shrink, call it again: ask for the most first, then give back the rest. Earlier
  /// views of the field end. Throws Error{callback} for an impossible number, a fixed field, and where
  /// Transform::fields is empty; Error{out_of_range} for an invalid field; Error{io} without memory. The
  /// field then stays as it was.
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

/// A function run on every sample, by the worker that read it: decoding, augmentation, tokenising. *Any
/// thread*: it must not share unguarded state. Its errors reach `next()`, unless BadSamples skips the sample.
struct Transform {
  std::function<void(const TransformContext& context, const SampleView& in, SampleOutput& out)> apply = {};
  /// The fields that it makes, with the limits of a source's. Empty: it changes the source's fields in place,
  /// and `in` and `out` are the same memory.
  std::vector<Field> fields = {};
};

/// The batch that a Collate makes, with as many samples as its input. Fixed fields [size, shape...] have
/// memory, with unspecified content. Ragged fields have no rows until `resize`. *One thread.*
class BatchOutput {
 public:
  [[nodiscard]] std::span<const Field> fields() const noexcept;
  /// All bytes of field f. Throws Error{out_of_range} for an invalid field.
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
  /// Gives sample i rows[i] rows. Throws the same, and Error{callback} unless `rows` has a number for each
  /// sample.
  std::span<std::byte> resize(std::size_t f, std::span<const std::int64_t> rows);

 private:
  friend class internal::BatchMaker;
  explicit BatchOutput(internal::FieldStore& store) noexcept : store_(store) {}

  internal::FieldStore& store_;
};

/// A function run on every batch of this rank, after reading and transforms. Example: it pads to the longest
/// sample. *Any thread*: it runs in a worker, or in `next()` without workers. It is not called for an empty
/// batch. Slots, ids and kinds stay as they are; skipped slots are in the batch. Its errors reach `next()` as
/// an Error that names the step.
struct Collate {
  std::function<void(const Batch& in, BatchOutput& out)> apply = {};
  /// The fields that it makes, with the limits of a source's.
  std::vector<Field> fields = {};
};

}  // namespace rota
