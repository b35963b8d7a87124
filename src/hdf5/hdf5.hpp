#pragma once

// A thin checked layer over HDF5's C library, which is not thread-safe: handles that close themselves, one
// process-wide lock, and HDF5's error stack turned into our message.

#include <hdf5.h>

#include <mutex>
#include <string_view>
#include <type_traits>
#include <utility>

#include "rota/dtype.hpp"

namespace rota::hdf5 {

/// The process-wide lock that every call into HDF5 is made under, closing handles included. Recursive. The
/// first one of a process also stops HDF5 from printing its errors.
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

}  // namespace rota::hdf5
