#include "commit_page.hpp"

#include <fmt/format.h>

#include <limits>

#include "core/bytes.hpp"
#include "core/failure.hpp"

namespace rota::checkpoint {
namespace {

using internal::load;
using internal::store;

// Bytes 0 to 39, which mean the same in every version.
struct Prefix {
  std::array<unsigned char, 8> magic{0x89, 'R', 'O', 'T', 'A', '\r', '\n', 0x1A};
  std::uint32_t format_version = kFormatVersion;
  std::uint32_t page_bytes = kPageBytes;
  std::uint64_t required_features = 0;
  std::uint64_t optional_features = 0;
  std::uint64_t checksum = 0;  // of all before
};
static_assert(sizeof(Prefix) == 40);
constexpr std::size_t kChecksumAt = offsetof(Prefix, checksum);
constexpr std::size_t kDigestAt = kPageBytes - sizeof(Digest);

[[noreturn]] void fail(ErrorCode code, std::string_view file, std::string_view what) {
  throw internal::failure(code, "read the commit page of {}: {}", file, what);
}

void require_sound(const Prefix& prefix, std::span<const std::byte> bytes, std::string_view file) {
  if (prefix.magic != Prefix().magic) {
    fail(ErrorCode::corrupt, file, "it does not begin with the magic bytes; it is damaged or no checkpoint");
  }
  if (prefix.checksum != short_digest(bytes.first(kChecksumAt))) {
    fail(ErrorCode::corrupt, file, "the checksum of its first bytes is wrong");
  }
  if (prefix.format_version > kFormatVersion) {
    fail(ErrorCode::unsupported, file,
         fmt::format("it has format version {}, and this program reads up to version {}; read it with a "
                     "newer version of rota",
                     prefix.format_version, kFormatVersion));
  }
  if (prefix.required_features != 0) {
    fail(
        ErrorCode::unsupported, file,
        fmt::format(
            "it needs features {:#x}, of which this program knows none; read it with a newer version of rota",
            prefix.required_features));
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
  store(bytes, 0, Prefix());
  store(bytes, kChecksumAt, short_digest(std::span(bytes).first(kChecksumAt)));
  store(bytes, sizeof(Prefix), page);
  store(bytes, kDigestAt, digest(std::span(bytes).first(kDigestAt)));
  return bytes;
}

CommitPage decode_page(std::span<const std::byte, kPageBytes> bytes, std::string_view file) {
  const auto prefix = load<Prefix>(bytes);
  require_sound(prefix, bytes, file);
  if (load<Digest>(bytes, kDigestAt) != digest(bytes.first(kDigestAt))) {
    fail(ErrorCode::corrupt, file, "its checksum is wrong");
  }
  const auto page = load<CommitPage>(bytes, sizeof(Prefix));
  if (prefix.page_bytes != kPageBytes || !is_sound(page)) {
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
