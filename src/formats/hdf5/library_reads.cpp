#include "formats/hdf5/library_reads.hpp"

#include <fmt/format.h>
#include <sys/file.h>

#include <array>
#include <cerrno>
#include <optional>
#include <string_view>

#include "rota/error.hpp"

namespace rota::internal {
std::optional<std::uint64_t> find_hdf5_signature(const hdf5::FileBytes& bytes) {
  constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
  std::array<char, kSignature.size()> found{};
  for (std::uint64_t offset = 0; offset + found.size() <= bytes.size;
       offset = offset == 0 ? 512 : offset * 2) {
    if (!bytes.read(offset, std::as_writable_bytes(std::span(found)))) return std::nullopt;
    if (std::string_view(found.data(), found.size()) == kSignature) return offset;
  }
  return std::nullopt;
}

void require_finished(const DatasetFile& file, const hdf5::FileBytes& bytes) {
  const auto superblock = find_hdf5_signature(bytes);
  if (!superblock) {
    throw Error(ErrorCode::corrupt,
                fmt::format("open {}: it is not an HDF5 file (no signature); check the path, or open it as "
                            "\"files\"",
                            file.path()));
  }
  std::array<std::uint8_t, 12> head{};
  if (bytes.size - *superblock >= head.size())
    (void)bytes.read(*superblock, std::as_writable_bytes(std::span(head)));
  constexpr unsigned kOpenForWriting = 0x01U | 0x04U;  // the latter: others may read meanwhile
  const bool is_marked = head[8] >= 2 && (head[11] & kOpenForWriting) != 0;
  const bool is_local = file.descriptor() >= 0;
  const bool is_locked =
      is_local && ::flock(file.descriptor(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (is_local && !is_locked) ::flock(file.descriptor(), LOCK_UN);
  if (!is_marked && !is_locked) return;
  throw Error(
      ErrorCode::busy,
      fmt::format("open {}: {}", file.path(),
                  is_locked
                      ? "a writer has locked it; close it first"
                      : "it is open for writing, or its writer ended without closing it; close it first. "
                        "Where nobody writes it any more, look at what it has, and clear the mark "
                        "(h5clear -s)"));
}

}  // namespace rota::internal
