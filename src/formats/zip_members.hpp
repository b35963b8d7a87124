#pragma once

// What a zip file holds, and where: by minizip, which is asked for its directory and never for data.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/records.hpp"

namespace rota::internal {

/// A file in a zip file.
struct ZipMember {
  std::string name;
  std::uint64_t offset = 0;  ///< of its first stored byte
  std::uint64_t stored_bytes = 0;
  std::uint64_t bytes = 0;  ///< unpacked
  std::uint32_t crc = 0;    ///< of them
  bool is_deflated = false;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(name, offset, stored_bytes, bytes, crc, is_deflated);
  }
};

/// The members of `file`, all within it. Throws Error{corrupt} naming file and offset, Error{unsupported} for
/// encrypted ones and methods other than stored and deflated.
std::vector<ZipMember> list_zip(const RecordFile& file);

/// The unpacked bytes of a member, from its first one on, and their checksum. *One thread.*
class ZipReader {
 public:
  ZipReader(const RecordFile& file, const ZipMember& member);
  ~ZipReader();
  ZipReader(const ZipReader&) = delete;
  ZipReader& operator=(const ZipReader&) = delete;

  /// Fills `to` with those that follow. Throws as RecordFile::read does, Error{corrupt} where they are not
  /// what deflating leaves.
  void next(std::span<std::byte> to);
  /// Throws Error{corrupt} unless all were read, and their checksum is right.
  void require_end();

 private:
  struct Inflation;
  void refill(std::size_t wanted);
  const RecordFile& file_;
  const ZipMember& member_;
  std::unique_ptr<Inflation> inflation_;  // of a deflated one
  std::uint64_t done_ = 0;
  std::uint32_t crc_ = 0;
};

}  // namespace rota::internal
