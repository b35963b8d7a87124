#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "files/dataset_file.hpp"
#include "files/read_window.hpp"
#include "hdf5/address_file.hpp"

namespace rota::internal {

/// Lets HDF5 read files, and keeps what is thrown meanwhile, which it would only tell as damage. A storage is
/// not waited for under HDF5's lock: there, a read of bytes that have not come fails, `fetch` brings them,
/// and HDF5 is asked anew.
class Hdf5Reads {
 public:
  /// Both must outlive what is returned. At most one file may be in a storage.
  hdf5::FileBytes of(const DatasetFile& file) {
    return {file.bytes(), [this, &file](std::uint64_t offset, std::span<std::byte> to) {
              if (file.storage() != nullptr) return copy(offset, to);
              try {
                file.read(offset, to);
                return true;
              } catch (...) {
                if (error_ == nullptr) error_ = std::current_exception();
                return false;
              }
            }};
  }
  void rethrow() const {
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

  /// Whether HDF5 wanted bytes that had not come.
  [[nodiscard]] bool is_missing() const noexcept { return missing_bytes_ > 0; }
  /// Brings them, and what follows, much where it is asked for piece by piece. Throws as DatasetFile::read
  /// does.
  void fetch(const DatasetFile& file) {
    std::vector<std::byte> piece(std::min(pace_.next(missing_, missing_bytes_), file.bytes() - missing_));
    file.read(missing_, piece);
    pieces_.insert_or_assign(missing_, std::move(piece));
    missing_bytes_ = 0;
  }

 private:
  // HDF5 asks again for just what it was refused, so that a read need not be put together.
  bool copy(std::uint64_t offset, std::span<std::byte> to) noexcept {
    if (to.empty()) return true;
    auto piece = pieces_.upper_bound(offset);
    if (piece != pieces_.begin()) {
      --piece;
      const std::span<const std::byte> bytes = piece->second;
      const std::uint64_t skipped = offset - piece->first;
      if (skipped <= bytes.size() && to.size() <= bytes.size() - skipped) {
        std::ranges::copy(bytes.subspan(skipped, to.size()), to.begin());
        return true;
      }
    }
    if (is_missing()) return false;
    missing_ = offset;
    missing_bytes_ = to.size();
    return false;
  }

  std::exception_ptr error_;
  std::map<std::uint64_t, std::vector<std::byte>> pieces_;  // by where they begin
  std::uint64_t missing_ = 0;
  std::size_t missing_bytes_ = 0;
  ReadPace pace_{{.least = std::uint64_t{256} << 10, .most = std::uint64_t{16} << 20}};
};

/// Where HDF5's signature stands: at byte 0 or, after a user block, at 512, 1024, 2048, ... (HDF5 File Format
/// Specification 3.0, II.A). Throws what `bytes.read` throws; nothing, too, where that fails.
std::optional<std::uint64_t> find_hdf5_signature(const hdf5::FileBytes& bytes);

/// Throws Error{corrupt} where `file`, whose bytes are `bytes`, has no signature of HDF5; Error{busy} where
/// it is being written, or was left so by its writer. The file says so, from version 2 of its superblock on,
/// or a lock does: what was written may not be there yet, and would be read as zeros.
void require_finished(const DatasetFile& file, const hdf5::FileBytes& bytes);

}  // namespace rota::internal
