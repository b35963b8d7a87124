#pragma once

// A thin checked layer over HDF5's C library, which is not thread-safe: handles that close themselves, one
// process-wide lock, HDF5's error stack turned into our message, and files that tell where their bytes lie.

#include <hdf5.h>

#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "rota/dtype.hpp"

namespace rota::hdf5 {

/// The process-wide lock that every call into HDF5 is made under, closing handles included. Recursive. The
/// first one of a thread also stops HDF5 from printing its errors in it.
[[nodiscard]] std::unique_lock<std::recursive_mutex> lock();

/// Throws Error{io} made of `what` (tried, on what) and the deepest line of HDF5's error stack.
[[noreturn]] void fail(std::string_view what);

/// An HDF5 identifier that is closed with `close_id` when it dies, under the lock. Move-only.
template <herr_t (*close_id)(hid_t)>
class Handle {
 public:
  Handle() noexcept = default;
  /// Takes over `id`; throws as `fail(what)` where it is no identifier.
  Handle(hid_t id, std::string_view what) : id_(id) {
    if (id < 0) fail(what);
  }
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~Handle() {
    if (id_ < 0) return;
    const auto guard = lock();
    close_id(id_);
  }

  [[nodiscard]] hid_t get() const noexcept { return id_; }

  /// Closes now, and throws where that fails: for files that were written.
  void close(std::string_view what) {
    const auto guard = lock();
    if (id_ >= 0 && close_id(std::exchange(id_, H5I_INVALID_HID)) < 0) fail(what);
  }

 private:
  hid_t id_ = H5I_INVALID_HID;
};

using File = Handle<H5Fclose>;
using Group = Handle<H5Gclose>;
using Dataset = Handle<H5Dclose>;
using Dataspace = Handle<H5Sclose>;
using Datatype = Handle<H5Tclose>;
using Attribute = Handle<H5Aclose>;
using Properties = Handle<H5Pclose>;
using Object = Handle<H5Oclose>;
static_assert(std::is_nothrow_move_constructible_v<File> && std::is_nothrow_move_assignable_v<File>);

/// Throws as `fail(what)` where `status` is negative, else returns it.
template <typename Status>
Status check(Status status, std::string_view what) {
  if (status < 0) fail(what);
  return status;
}

/// The type for `dtype` in a little-endian file: IEEE halves for float16, uint16 for bfloat16, an enumeration
/// FALSE, TRUE of int8 for boolean (as h5py does).
Datatype file_type(DType dtype);

/// Bytes of a file, counted from its very first byte (a user block included).
struct ChunkExtent {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint32_t filter_mask = 0;  ///< bit i set: filter i of the pipeline was left out
};

/// The bytes of an HDF5 file, wherever they are.
struct FileBytes {
  std::uint64_t size = 0;
  /// Reads [offset, offset + to.size()), which is in the file; false where that fails. Throws nothing.
  std::function<bool(std::uint64_t offset, std::span<std::byte> to)> read;
};

/// What has the bytes of a file in the place of a file system. What `read` and `write` throw fails HDF5's
/// call.
class Medium {
 public:
  virtual ~Medium() = default;
  /// H5FD_FEAT_..., joined.
  [[nodiscard]] virtual unsigned features() const noexcept { return 0; }
  /// How many bytes there are.
  [[nodiscard]] virtual std::uint64_t end() const noexcept = 0;
  /// HDF5 has allotted the bytes before `end`.
  virtual void set_end(std::uint64_t /*end*/) noexcept {}
  /// `is_data`: of a dataset, and not metadata.
  virtual void read(std::uint64_t at, std::span<std::byte> out, bool is_data) = 0;
  virtual void write(std::uint64_t at, std::span<const std::byte> data) = 0;
};

using Driver = Handle<H5FDunregister>;
/// Has files that are opened with `access` lie in `medium`. Both it and what is returned must outlive them.
/// Throws as `fail(what)`.
Driver drive(const Properties& access, Medium* medium, std::string_view what);

/// A file opened for reading by a driver of ours, which can tell where a chunk lies in O(log chunks).
///
/// H5Dget_chunk_info and its like walk the whole chunk index at every call, and forget the user block, before
/// HDF5 1.14.4. H5Dread_chunk looks up one chunk and asks the driver for its bytes: here the driver only
/// notes where they are and reads nothing, with any version of HDF5. One thread, under `lock()`.
class AddressFile : private Medium {
 public:
  /// `path` goes into messages. A file that `is_growing` is being written by one that lets others read
  /// (SWMR). Throws Error{io} as `fail` does.
  AddressFile(const std::string& path, FileBytes bytes, bool is_growing = false);
  AddressFile(const AddressFile&) = delete;
  AddressFile& operator=(const AddressFile&) = delete;

  [[nodiscard]] hid_t get() const noexcept { return file_.get(); }

  /// The stored chunk of `dataset` that begins at element `origin` (one number per dimension); nothing where
  /// it was never written, or cannot be looked up: HDF5 does not tell these apart, so compare how many are
  /// found with `stored_chunks`. `what` goes into the Error{io}, and the Error{corrupt} of one larger than
  /// the file.
  std::optional<ChunkExtent> chunk(hid_t dataset, const hsize_t* origin, std::string_view what);

  /// How many chunks of `dataset` are stored, by a walk over their index. Throws Error{io}.
  [[nodiscard]] std::uint64_t stored_chunks(hid_t dataset, std::string_view what) const;

 private:
  [[nodiscard]] unsigned features() const noexcept override {
    return H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE | H5FD_FEAT_SUPPORTS_SWMR_IO;
  }
  [[nodiscard]] std::uint64_t end() const noexcept override { return bytes_.size; }
  void read(std::uint64_t at, std::span<std::byte> out, bool is_data) override;
  void write(std::uint64_t /*at*/, std::span<const std::byte> /*data*/) override { throw std::bad_alloc(); }

  FileBytes bytes_;
  bool is_tracing_ = false;  // raw data is noted, not read
  ChunkExtent last_;
  Driver driver_;
  std::unique_ptr<char[]> untouched_;  // where H5Dread_chunk believes that it reads to
  std::uint64_t untouched_bytes_ = 0;
  File file_;
};

}  // namespace rota::hdf5
