#pragma once

// Zip files, as NPZ has them: what they hold, and its bytes.

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "files/dataset_file.hpp"

namespace rota::internal {

/// A file in a zip file.
struct ZipMember {
  std::string name;
  std::uint64_t offset = 0;  // of its first stored byte
  std::uint64_t stored_bytes = 0;
  std::uint64_t bytes = 0;  // unpacked
  std::uint32_t crc = 0;    // of them
  bool is_deflated = false;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(name, offset, stored_bytes, bytes, crc, is_deflated);
  }
};

/// All within the file. Throws Error{corrupt} naming file and offset, Error{unsupported} for encrypted ones
/// and methods other than stored and deflated.
std::vector<ZipMember> list_zip(const DatasetFile& file);

/// The unpacked bytes of a member, from its first one on, and their checksum. *One thread.*
class ZipReader {
 public:
  /// Both must outlive it.
  ZipReader(const DatasetFile& file, const ZipMember& member);
  ~ZipReader() { ::inflateEnd(&z_); }
  ZipReader(const ZipReader&) = delete;
  ZipReader& operator=(const ZipReader&) = delete;

  /// Fills `to` with those that follow. Throws as DatasetFile::read does, Error{corrupt} where they are not
  /// what deflating leaves.
  void next(std::span<std::byte> to);
  /// Throws Error{corrupt} unless all were read, and their checksum is right.
  void require_end() const;

 private:
  [[nodiscard]] Error damaged() const;
  void inflate_into(std::span<std::byte> to);
  void refill(std::size_t wanted);

  const DatasetFile& file_;
  const ZipMember& member_;
  z_stream z_{};                   // of a deflated one
  std::vector<std::byte> window_;  // stored bytes; z_ has taken some of them
  std::uint64_t stored_ = 0;       // bytes that were in it so far
  std::uint64_t done_ = 0;
  std::uint32_t crc_ = 0;
};

}  // namespace rota::internal
