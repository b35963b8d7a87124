#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "files/dataset_file.hpp"
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
    constexpr std::uint64_t kLeastPiece = std::uint64_t{256} << 10;
    constexpr std::uint64_t kMostPiece = std::uint64_t{16} << 20;
    piece_bytes_ = std::clamp(missing_ == last_end_ ? 2 * piece_bytes_ : 0, kLeastPiece, kMostPiece);
    const std::uint64_t bytes = std::max<std::uint64_t>(missing_bytes_, piece_bytes_);
    last_end_ = missing_ + std::min(bytes, file.bytes() - missing_);
    std::vector<std::byte> piece(last_end_ - missing_);
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
  std::uint64_t piece_bytes_ = 0;  // of the last one that was fetched
  std::uint64_t last_end_ = 0;
};

}  // namespace rota::internal
