#pragma once

// An open checkpoint: tensors and blobs of one HDF5 file, verified, readable at any world size. Next:
// verify.hpp.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "rota/dtype.hpp"
#include "rota/snapshot.hpp"
#include "rota/world.hpp"

namespace rota {

/// What a checkpoint says of one tensor.
struct TensorInfo {
  std::string name;
  DType dtype = DType::uint8;
  std::vector<std::int64_t> shape;  ///< [rows, row_shape...]
  [[nodiscard]] std::int64_t rows() const noexcept { return shape.front(); }
};

/// What a checkpoint says of one blob.
struct BlobInfo {
  std::string name;
  int rank = -1;  ///< its owner; -1: the whole job
  std::int64_t bytes = 0;
};

/// What a checkpoint says of itself.
struct CheckpointInfo {
  std::filesystem::path path;
  std::int64_t serial = 0;   ///< number of the file in its directory; higher is newer
  std::int64_t parent = -1;  ///< serial of the checkpoint restored or saved before it in its run; -1: none
  std::int64_t step = 0;     ///< as given to save
  std::int64_t format_version = 0;
  int world_size = 0;  ///< ranks that saved it
  std::string run_id;  ///< the same for all checkpoints of a run, over its restarts
  std::int64_t bytes = 0;
};

/// An open checkpoint. Every byte was verified. Reads are not collective: each rank reads what it wants, at
/// any world size, any number of times. *Any thread.* Move-only; after a move every method throws
/// Error{invalid_argument}.
class Checkpoint {
 public:
  ~Checkpoint();
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;

  [[nodiscard]] const CheckpointInfo& info() const;
  [[nodiscard]] std::span<const TensorInfo> tensors() const;
  [[nodiscard]] std::span<const BlobInfo> blobs() const;

  /// Throws Error{not_found} naming the tensors of the file.
  [[nodiscard]] const TensorInfo& tensor(std::string_view name) const;
  /// Throws Error{mismatch}, naming both, unless tensor `name` has the shape [rows, row_shape...].
  void require_shape(std::string_view name, std::initializer_list<std::int64_t> shape) const;
  [[nodiscard]] bool has_tensor(std::string_view name) const;
  [[nodiscard]] bool has_blob(std::string_view name) const;

  /// Reads rows [first, first + count) of tensor `name` into `out`, which must have exactly their size.
  /// Throws Error{not_found}, Error{out_of_range}, Error{invalid_argument} for a wrong size, Error{io}.
  void read(std::string_view name, RowRange rows, std::span<std::byte> out) const;
  /// The same as elements of T. Throws Error{mismatch} for another type. std::uint16_t also takes the bits of
  /// float16 and bfloat16.
  template <typename T>
  [[nodiscard]] std::vector<T> read(std::string_view name, RowRange rows) const;
  /// All rows.
  template <typename T>
  [[nodiscard]] std::vector<T> read(std::string_view name) const {
    return read<T>(name, {0, tensor(name).rows()});
  }

  /// The blob `name` of the job. Throws Error{not_found}.
  [[nodiscard]] std::string blob(std::string_view name) const;
  /// The blob `name` of this rank, if `world.size` is `info().world_size`.
  [[nodiscard]] std::optional<std::string> rank_blob(std::string_view name, const World& world) const;
  /// The same of worker `worker`, if this rank also had `workers` workers then.
  [[nodiscard]] std::optional<std::string> worker_blob(std::string_view name, int worker, int workers,
                                                       const World& world) const;
  /// Rank and worker blobs that are lost when restoring with this world size and number of workers.
  [[nodiscard]] std::vector<BlobInfo> dropped(int world_size, int workers = 0) const;

 private:
  friend class CheckpointReader;
  struct Impl;
  explicit Checkpoint(std::unique_ptr<Impl> impl);
  [[nodiscard]] const Impl& impl() const;
  const TensorInfo& require(std::string_view name, RowRange rows) const;
  [[nodiscard]] std::size_t count_elements(std::string_view name, RowRange rows, DType dtype) const;
  std::unique_ptr<Impl> impl_;
};

/// Opens and verifies one file, without MPI or other ranks. Throws Error{not_found}, Error{io},
/// Error{corrupt} saying what is damaged (or that it is no regular file), Error{unsupported} for a newer
/// format version.
Checkpoint open_checkpoint(const std::filesystem::path& file);

// ---- templates ----

template <typename T>
std::vector<T> Checkpoint::read(std::string_view name, RowRange rows) const {
  static_assert(!std::is_same_v<T, bool>, "read booleans into bytes: std::vector<bool> has no bytes");
  std::vector<T> values(count_elements(name, rows, kDTypeOf<T>));
  read(name, rows, std::as_writable_bytes(std::span(values)));
  return values;
}

}  // namespace rota
