#include "commit_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "little_endian.hpp"
#include "rota/error.hpp"

namespace rota::checkpoint {
namespace {

constexpr std::array<unsigned char, 8> kMagic{0x89, 'R', 'O', 'T', 'A', '\r', '\n', 0x1A};
constexpr std::size_t kPrefixBytes = 32;
constexpr std::size_t kDigestAt = kPageBytes - sizeof(Digest);

// Where the fields lie.
enum Field : std::size_t {
  kVersionAt = 8,
  kPageBytesAt = 12,
  kRequiredFeaturesAt = 16,
  kPrefixChecksumAt = 32,
  kSerialAt = 40,
  kParentAt = 48,
  kStepAt = 56,
  kWorldSizeAt = 64,
  kHdf5EndAt = 72,
  kFileBytesAt = 80,
  kExtentCountAt = 88,
  kTableDigestAt = 96,
  kRunIdAt = 112,
  kContentsBytesAt = 128,
  kContentsDigestAt = 136,
};

void put_digest(std::span<std::byte> bytes, std::size_t at, const Digest& value) {
  put(bytes, at, value.low);
  put(bytes, at + 8, value.high);
}

Digest get_digest(std::span<const std::byte> bytes, std::size_t at) {
  return {.low = get<std::uint64_t>(bytes, at), .high = get<std::uint64_t>(bytes, at + 8)};
}

[[noreturn]] void fail(ErrorCode code, std::string_view file, std::string_view what) {
  throw Error(code, fmt::format("read the commit page of {}: {}", file, what));
}

// Bytes 0 to 39, which mean the same in every version.
void require_prefix(std::span<const std::byte> bytes, std::string_view file) {
  if (!std::ranges::equal(std::as_bytes(std::span(kMagic)), bytes.first(kMagic.size()))) {
    fail(ErrorCode::corrupt, file, "it does not begin with the magic bytes; it is damaged or no checkpoint");
  }
  if (get<std::uint64_t>(bytes, kPrefixChecksumAt) != short_digest(bytes.first(kPrefixBytes))) {
    fail(ErrorCode::corrupt, file, "the checksum of its first bytes is wrong");
  }
  const auto version = get<std::uint32_t>(bytes, kVersionAt);
  if (version > kFormatVersion) {
    fail(
        ErrorCode::unsupported, file,
        fmt::format("it has format version {}, and this program reads up to version {}; read it with a newer "
                    "version of rota",
                    version, kFormatVersion));
  }
  if (const auto features = get<std::uint64_t>(bytes, kRequiredFeaturesAt); features != 0) {
    fail(
        ErrorCode::unsupported, file,
        fmt::format("it needs features {:#x}, of which this program knows none; read it with a newer version "
                    "of rota",
                    features));
  }
}

bool is_sound(const CommitPage& page) {
  return page.serial >= 0 && page.parent >= -1 && page.world_size >= 1 &&
         page.world_size <= std::numeric_limits<int>::max() && page.hdf5_end > kPageBytes &&
         page.file_bytes > page.hdf5_end &&
         page.file_bytes <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) &&
         page.extent_count <= page.hdf5_end - kPageBytes &&
         page.extent_count <= (page.file_bytes - page.hdf5_end) / kExtentEntryBytes &&
         page.contents_bytes == page.file_bytes - page.contents_at() &&
         page.contents_bytes <= kMaxContentsBytes;
}

}  // namespace

PageBytes encode_page(const CommitPage& page) {
  PageBytes bytes{};
  std::ranges::copy(std::as_bytes(std::span(kMagic)), bytes.begin());
  put(bytes, kVersionAt, kFormatVersion);
  put(bytes, kPageBytesAt, static_cast<std::uint32_t>(kPageBytes));
  put(bytes, kPrefixChecksumAt, short_digest(std::span(bytes).first(kPrefixBytes)));
  put(bytes, kSerialAt, page.serial);
  put(bytes, kParentAt, page.parent);
  put(bytes, kStepAt, page.step);
  put(bytes, kWorldSizeAt, page.world_size);
  put(bytes, kHdf5EndAt, page.hdf5_end);
  put(bytes, kFileBytesAt, page.file_bytes);
  put(bytes, kExtentCountAt, page.extent_count);
  put_digest(bytes, kTableDigestAt, page.table_digest);
  std::ranges::copy(page.run_id, bytes.begin() + kRunIdAt);
  put(bytes, kContentsBytesAt, page.contents_bytes);
  put_digest(bytes, kContentsDigestAt, page.contents_digest);
  put_digest(bytes, kDigestAt, digest(std::span(bytes).first(kDigestAt)));
  return bytes;
}

CommitPage decode_page(std::span<const std::byte, kPageBytes> bytes, std::string_view file) {
  require_prefix(bytes, file);
  if (get_digest(bytes, kDigestAt) != digest(bytes.first(kDigestAt))) {
    fail(ErrorCode::corrupt, file, "its checksum is wrong");
  }
  CommitPage page{.serial = get<std::int64_t>(bytes, kSerialAt),
                  .parent = get<std::int64_t>(bytes, kParentAt),
                  .step = get<std::int64_t>(bytes, kStepAt),
                  .world_size = get<std::int64_t>(bytes, kWorldSizeAt),
                  .hdf5_end = get<std::uint64_t>(bytes, kHdf5EndAt),
                  .file_bytes = get<std::uint64_t>(bytes, kFileBytesAt),
                  .extent_count = get<std::uint64_t>(bytes, kExtentCountAt),
                  .table_digest = get_digest(bytes, kTableDigestAt),
                  .contents_bytes = get<std::uint64_t>(bytes, kContentsBytesAt),
                  .contents_digest = get_digest(bytes, kContentsDigestAt),
                  .run_id = {}};
  std::ranges::copy(bytes.subspan<kRunIdAt, sizeof(RunId)>(), page.run_id.begin());
  if (get<std::uint32_t>(bytes, kPageBytesAt) != kPageBytes || !is_sound(page)) {
    fail(ErrorCode::corrupt, file, "its sizes contradict one another");
  }
  return page;
}

std::string to_hex(const RunId& run_id) {
  std::string text;
  for (const std::byte byte : run_id) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

}  // namespace rota::checkpoint
