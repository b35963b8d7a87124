#include "forge.hpp"
#include "core/bytes.hpp"
#include "digest.hpp"

namespace rota::test {
namespace {

using namespace checkpoint;  // NOLINT(google-build-using-namespace): its layout is what this is about
using View = std::span<std::byte>;

// Where these stand in a page.
constexpr std::size_t kPrefixChecksumAt = 32;
constexpr std::size_t kWorldSizeAt = 64;
constexpr std::size_t kHdf5EndAt = 72;
constexpr std::size_t kExtentCountAt = 88;
constexpr std::size_t kTableDigestAt = 96;
constexpr std::size_t kContentsBytesAt = 128;
constexpr std::size_t kContentsDigestAt = 136;
constexpr std::size_t kPageDigestAt = kPageBytes - sizeof(Digest);

// These bytes of `file`; nothing where they are not all there.
std::optional<View> part_of(View file, std::uint64_t offset, std::uint64_t bytes) {
  if (offset > file.size() || bytes > file.size() - offset) return std::nullopt;
  return file.subspan(offset, bytes);
}

void seal_rows(View file, Contents& contents) {
  for (TensorPlace& place : contents.places) {
    if (const auto rows = part_of(file, place.offset, place.bytes)) {
      place.row_digest = row_digest(*rows, 0, place.row_bytes);
    }
  }
}

void seal_blobs(View file, Contents& contents) {
  for (BlobEntry& blob : contents.blobs) {
    if (const auto stored = part_of(file, contents.blob_offset + blob.offset, blob.stored_bytes)) {
      blob.digest = digest(*stored);
    }
  }
}

// Of contents that can be decoded at all.
void seal_contents(View file, View bytes) {
  try {
    Contents contents = decode_contents(bytes, load<std::uint64_t>(file, kHdf5EndAt),
                                        load<std::int64_t>(file, kWorldSizeAt), "seal");
    seal_rows(file, contents);
    seal_blobs(file, contents);
    std::ranges::copy(encode_contents(contents), bytes.begin());
  } catch (const Error&) {
    return;
  }
}

void seal_extents(View file, View table) {
  std::vector<Extent> extents = decode_extents(table);
  for (Extent& extent : extents) {
    if (extent.length > kMaxExtentBytes) continue;
    if (const auto bytes = part_of(file, extent.offset, extent.length)) extent.digest = digest(*bytes);
  }
  std::ranges::copy(encode_extents(extents), table.begin());
}

}  // namespace

Parts take_apart(std::span<const std::byte> file) {
  Parts parts;
  parts.page = decode_page(file.first<kPageBytes>(), "a good file");
  const auto hdf5 = file.first(parts.page.hdf5_end).subspan(kPageBytes);
  const auto contents = file.subspan(parts.page.contents_at());
  parts.hdf5.assign(hdf5.begin(), hdf5.end());
  parts.table =
      decode_extents(file.subspan(parts.page.hdf5_end, parts.page.extent_count * kExtentEntryBytes));
  parts.contents.assign(contents.begin(), contents.end());
  return parts;
}

Contents contents_of(const Parts& parts) {
  return decode_contents(parts.contents, parts.page.hdf5_end, parts.page.world_size, "a good file");
}

std::vector<std::byte> put_together(const Parts& parts) {
  CommitPage page = parts.page;
  page.hdf5_end = kPageBytes + parts.hdf5.size();
  page.extent_count = parts.table.size();
  page.contents_bytes = parts.contents.size();
  page.file_bytes = page.contents_at() + page.contents_bytes;
  const PageBytes head = encode_page(page);
  std::vector<std::byte> file(head.begin(), head.end());
  const std::vector<std::byte> table = encode_extents(parts.table);
  for (const auto* part : {&parts.hdf5, &table, &parts.contents}) {
    file.insert(file.end(), part->begin(), part->end());
  }
  return file;
}

void seal(std::span<std::byte> file) {
  if (file.size() < kPageBytes) return;
  const auto hdf5_end = load<std::uint64_t>(file, kHdf5EndAt);
  const auto extent_count = load<std::uint64_t>(file, kExtentCountAt);
  const std::uint64_t table_bytes = std::min(extent_count, file.size()) * kExtentEntryBytes;
  const auto contents = part_of(file, hdf5_end + table_bytes, load<std::uint64_t>(file, kContentsBytesAt));
  if (contents) {
    seal_contents(file, *contents);
    store(file, kContentsDigestAt, digest(*contents));
  }
  if (const auto table = part_of(file, hdf5_end, table_bytes)) {
    seal_extents(file, *table);
    store(file, kTableDigestAt, digest(*table));
  }
  store(file, kPrefixChecksumAt, short_digest(file.first(kPrefixChecksumAt)));
  store(file, kPageDigestAt, digest(file.first(kPageDigestAt)));
}

}  // namespace rota::test
