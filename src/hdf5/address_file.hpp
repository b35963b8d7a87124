#pragma once

// Where the bytes of an HDF5 file lie, so that others may read them without HDF5.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "hdf5/hdf5.hpp"

namespace rota::hdf5 {

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

/// A file opened for reading by a driver of ours, which can tell where a chunk lies in O(log chunks).
///
/// H5Dget_chunk_info and its like walk the whole chunk index at every call, and forget the user block, before
/// HDF5 1.14.4. H5Dread_chunk looks up one chunk and asks the driver for its bytes: here the driver only
/// notes where they are and reads nothing, with any version of HDF5. One thread, under `lock()`.
class AddressFile {
 public:
  /// `path` goes into messages. Throws Error{io} as `fail` does.
  AddressFile(const std::string& path, FileBytes bytes);
  ~AddressFile();
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

  /// What the driver and its owner share; for the driver.
  struct Shared {
    FileBytes bytes;
    bool is_tracing = false;  ///< raw data is noted, not read
    ChunkExtent last;
  };

 private:
  std::unique_ptr<Shared> shared_;
  hid_t driver_ = H5I_INVALID_HID;
  std::unique_ptr<char[]> untouched_;  // where H5Dread_chunk believes that it reads to
  std::uint64_t untouched_bytes_ = 0;
  File file_;
};

}  // namespace rota::hdf5
