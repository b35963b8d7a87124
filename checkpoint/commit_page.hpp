#pragma once

// The first 4,096 bytes of a checkpoint, written last: with them a file is complete. See FORMAT.md.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "extents.hpp"

namespace rota::checkpoint {

inline constexpr std::uint32_t kFormatVersion = 1;

/// More than any checkpoint needs to say what it holds, and less than would hurt to read.
inline constexpr std::uint64_t kMaxContentsBytes = std::uint64_t{1} << 30;

using RunId = std::array<std::byte, 16>;
using PageBytes = std::array<std::byte, kPageBytes>;

/// Lies in the file as it does here, from byte 40 on.
struct CommitPage {
  std::int64_t serial = 0;
  std::int64_t parent = -1;
  std::int64_t step = 0;
  std::int64_t world_size = 1;
  std::uint64_t hdf5_end = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t extent_count = 0;
  Digest table_digest;
  RunId run_id{};
  std::uint64_t contents_bytes = 0;
  Digest contents_digest;

  /// Where the contents begin, behind the extent table.
  [[nodiscard]] std::uint64_t contents_at() const noexcept {
    return hdf5_end + extent_count * kExtentEntryBytes;
  }
};
static_assert(sizeof(CommitPage) == 112 && std::has_unique_object_representations_v<CommitPage>);

[[nodiscard]] PageBytes encode_page(const CommitPage& page);

/// The page in `bytes`, whose sizes agree with each other. Throws Error{corrupt} saying what is damaged, or
/// Error{unsupported} for a newer format; `file` is named in the message.
[[nodiscard]] CommitPage decode_page(std::span<const std::byte, kPageBytes> bytes, std::string_view file);

/// 32 hexadecimal digits.
[[nodiscard]] std::string to_hex(const RunId& run_id);

}  // namespace rota::checkpoint
