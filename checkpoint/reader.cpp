#include "reader.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "rota/error.hpp"
#include "rota/types.hpp"

namespace rota {
namespace checkpoint {
namespace {

[[noreturn]] void reject(const File& file, std::string_view why) {
  throw Error(ErrorCode::corrupt, fmt::format("verify {}: {}", file.path(), why));
}

// This rank's consecutive share of `count` things.
std::pair<std::uint64_t, std::uint64_t> share_of(std::uint64_t count, World world) {
  const auto begin = [&](int rank) {
    return static_cast<std::uint64_t>(share(static_cast<std::int64_t>(count), rank, world.size));
  };
  return {begin(world.rank), begin(world.rank + 1)};
}

// Calls `visit(entries, bytes)` for entries [first, last) of the extent table, in pieces: how many there are
// is only what a commit page says.
template <typename Visit>
void read_table(const File& file, const CommitPage& page, std::uint64_t first, std::uint64_t last,
                Visit&& visit) {
  constexpr std::uint64_t kPiece = (1 << 20) / kExtentEntryBytes;
  std::vector<std::byte> bytes(std::min(kPiece, last - first) * kExtentEntryBytes);
  for (std::uint64_t entry = first; entry < last; entry += kPiece) {
    const auto piece = std::span(bytes).first(std::min(kPiece, last - entry) * kExtentEntryBytes);
    file.read(page.hdf5_end + entry * kExtentEntryBytes, piece);
    visit(decode_extents(piece), piece);
  }
}

}  // namespace

CommitPage read_page(const File& file) {
  const std::uint64_t size = file.size();
  if (size < kPageBytes) reject(file, fmt::format("{} bytes are less than a commit page", size));
  PageBytes bytes{};
  file.read(0, bytes);
  const CommitPage page = decode_page(bytes, file.path());
  if (page.file_bytes != size) {
    reject(file, fmt::format("it has {} bytes, and its commit page says {}", size, page.file_bytes));
  }
  return page;
}

CheckpointInfo to_info(const CommitPage& page, const std::filesystem::path& path) {
  return {.path = path,
          .serial = page.serial,
          .parent = page.parent,
          .step = page.step,
          .format_version = kFormatVersion,
          .world_size = static_cast<int>(page.world_size),
          .run_id = to_hex(page.run_id),
          .bytes = static_cast<std::int64_t>(page.file_bytes)};
}

namespace {

// The digest of rows [first, last), read in pieces that hold whole rows, or parts of one long row.
std::uint64_t digest_rows(const File& file, const TensorPlace& place, std::uint64_t first, std::uint64_t last,
                          std::vector<std::byte>& buffer) {
  const auto row_bytes = static_cast<std::uint64_t>(place.row_bytes);
  std::uint64_t sum = 0;
  if (row_bytes == 0) return sum;
  const std::uint64_t rows_at_once = std::max<std::uint64_t>(1, kMaxExtentBytes / row_bytes);
  for (std::uint64_t row = first; row < last; row += rows_at_once) {
    const std::uint64_t at = place.offset + row * row_bytes;
    if (row_bytes > kMaxExtentBytes) {
      sum += long_row_digest(row, row_bytes, buffer, [&](std::uint64_t done, std::span<std::byte> part) {
        file.read(at + done, part);
      });
      continue;
    }
    const std::uint64_t rows = std::min(rows_at_once, last - row);
    const std::span part(buffer.data(), static_cast<std::size_t>(rows * row_bytes));
    file.read(at, part);
    sum += row_digest(part, static_cast<std::int64_t>(row), place.row_bytes);
  }
  return sum;
}

}  // namespace
}  // namespace checkpoint

using checkpoint::Extent;

CheckpointReader::CheckpointReader(const checkpoint::FileSystem& system, const std::filesystem::path& path)
    : impl_(std::make_unique<Checkpoint::Impl>()) {
  impl_->file = checkpoint::File(system, path.string(), O_RDONLY);
  page_ = checkpoint::read_page(impl_->file);
  impl_->info = checkpoint::to_info(page_, path);
  verify_table();
  read_contents();
}

void CheckpointReader::verify_table() const {
  // Coverage is checked on the way, so that a table which is no table is not read to its end.
  const std::string what = fmt::format("verify {}", impl_->file.path());
  checkpoint::DigestStream stream;
  std::uint64_t covered = checkpoint::kPageBytes;
  checkpoint::read_table(impl_->file, page_, 0, page_.extent_count,
                         [&](std::span<const Extent> extents, std::span<const std::byte> bytes) {
                           stream.add(bytes);
                           covered = checkpoint::cover(extents, covered, page_.hdf5_end, what);
                         });
  checkpoint::require_whole(covered, page_.hdf5_end, what);
  if (stream.digest() != page_.table_digest) {
    checkpoint::reject(impl_->file, "the checksum of its extent table is wrong");
  }
}

void CheckpointReader::read_contents() {
  std::vector<std::byte> bytes(page_.contents_bytes);
  impl_->file.read(page_.contents_at(), bytes);
  if (checkpoint::digest(bytes) != page_.contents_digest) {
    checkpoint::reject(impl_->file, "the checksum of its contents is wrong");
  }
  impl_->contents = checkpoint::decode_contents(bytes, page_.hdf5_end, page_.world_size,
                                                fmt::format("read the contents of {}", impl_->file.path()));
  for (const checkpoint::BlobEntry& entry : impl_->contents.blobs) {
    impl_->blobs.push_back(
        {.name = entry.name, .rank = entry.rank, .bytes = static_cast<std::int64_t>(entry.bytes)});
  }
}

void CheckpointReader::verify_extent(const Extent& extent, std::span<std::byte> buffer) const {
  // The table was good when it was read first, and is read again here.
  const std::span bytes = buffer.first(std::min<std::uint64_t>(extent.length, buffer.size()));
  impl_->file.read(extent.offset, bytes);
  if (bytes.size() == extent.length && checkpoint::digest(bytes) == extent.digest) return;
  checkpoint::reject(impl_->file, fmt::format("the checksum of bytes {} to {} is wrong", extent.offset,
                                              extent.offset + extent.length - 1));
}

void CheckpointReader::verify_extents(World world) const {
  std::vector<std::byte> buffer(std::min(checkpoint::kMaxExtentBytes, page_.hdf5_end));
  const auto [begin, end] = checkpoint::share_of(page_.extent_count, world);
  checkpoint::read_table(impl_->file, page_, begin, end,
                         [&](std::span<const Extent> extents, std::span<const std::byte> /*bytes*/) {
                           for (const Extent& extent : extents) verify_extent(extent, buffer);
                         });
}

std::vector<std::uint64_t> CheckpointReader::row_digests(World world) const {
  const checkpoint::Contents& contents = impl_->contents;
  std::vector<std::byte> buffer(std::min(checkpoint::kMaxExtentBytes, page_.hdf5_end));
  std::vector<std::uint64_t> sums;
  for (std::size_t t = 0; t < contents.tensors.size(); ++t) {
    const auto [first, last] =
        checkpoint::share_of(static_cast<std::uint64_t>(contents.tensors[t].rows()), world);
    sums.push_back(checkpoint::digest_rows(impl_->file, contents.places[t], first, last, buffer));
  }
  return sums;
}

void CheckpointReader::require_row_digests(std::span<const std::uint64_t> sums) const {
  const checkpoint::Contents& contents = impl_->contents;
  for (std::size_t t = 0; t < contents.tensors.size(); ++t) {
    if (sums[t] == contents.places[t].row_digest) continue;
    checkpoint::reject(impl_->file, fmt::format("the rows of tensor \"{}\" are not those that were saved",
                                                contents.tensors[t].name));
  }
}

Checkpoint CheckpointReader::finish() && { return Checkpoint(std::move(impl_)); }

}  // namespace rota
