#include "reader.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/failure.hpp"
#include "ranks/collectives.hpp"
#include "rota/types.hpp"
#include "row_sums.hpp"

namespace rota {
namespace checkpoint {
namespace {

// Calls `visit(entries, bytes)` for entries [first, last) of the extent table, in pieces: how many there are
// is only what a commit page says.
template <typename Visit>
void read_table(const internal::File& file, const CommitPage& page, std::uint64_t first, std::uint64_t last,
                Visit&& visit) {
  constexpr std::uint64_t kPiece = (1 << 20) / kExtentEntryBytes;
  std::vector<std::byte> bytes(std::min(kPiece, last - first) * kExtentEntryBytes);
  for (std::uint64_t entry = first; entry < last; entry += kPiece) {
    const auto piece = std::span(bytes).first(std::min(kPiece, last - entry) * kExtentEntryBytes);
    file.read(page.hdf5_end + entry * kExtentEntryBytes, piece);
    visit(decode_extents(piece), piece);
  }
}

// Less than the extent where the buffer is too small for it: the table was good when it was read first, and
// is read again here.
std::span<const std::byte> read_extent(const internal::File& file, const Extent& extent,
                                       std::span<std::byte> buffer) {
  const std::span bytes = buffer.first(std::min<std::uint64_t>(extent.length, buffer.size()));
  file.read(extent.offset, bytes);
  return bytes;
}

std::string verify_what(const internal::File& file) { return fmt::format("verify {}", file.path()); }

}  // namespace

void reject(const internal::File& file, std::string_view why) {
  throw internal::failure(ErrorCode::corrupt, "{}: {}", verify_what(file), why);
}

CommitPage read_page_alone(const internal::File& file) {
  if (const std::uint64_t size = file.size(); size < kPageBytes) {
    reject(file,
           fmt::format("{} bytes are less than a commit page: it was cut short, or is no checkpoint", size));
  }
  PageBytes bytes{};
  file.read(0, bytes);
  return decode_page(bytes, file.path());
}

void require_size(const internal::File& file, const CommitPage& page) {
  const std::uint64_t size = file.size();
  if (page.file_bytes == size) return;
  reject(file, fmt::format("it has {} bytes, and its commit page says {}", size, page.file_bytes));
}

CommitPage read_page(const internal::File& file) {
  CommitPage page = read_page_alone(file);
  require_size(file, page);
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

Digest digest_table(const internal::File& file, const CommitPage& page) {
  // Coverage is checked on the way, so that a table which is no table is not read to its end.
  const std::string what = verify_what(file);
  DigestStream stream;
  std::uint64_t covered = kPageBytes;
  read_table(file, page, 0, page.extent_count,
             [&](std::span<const Extent> extents, std::span<const std::byte> bytes) {
               stream.add(bytes);
               covered = cover(extents, covered, page.hdf5_end, what);
             });
  require_whole(covered, page.hdf5_end, what);
  return stream.digest();
}

void require_table(const internal::File& file, const CommitPage& page, const Digest& digest) {
  if (digest != page.table_digest) reject(file, "the checksum of its extent table is wrong");
}

Contents read_contents(const internal::File& file, const CommitPage& page) {
  std::vector<std::byte> bytes(page.contents_bytes);
  file.read(page.contents_at(), bytes);
  if (digest(bytes) != page.contents_digest) reject(file, "the checksum of its contents is wrong");
  return decode_contents(bytes, page.hdf5_end, page.world_size,
                         fmt::format("read the contents of {}", file.path()));
}

std::vector<BlobInfo> blob_infos(const Contents& contents) {
  std::vector<BlobInfo> infos;
  infos.reserve(contents.blobs.size());
  for (const BlobEntry& entry : contents.blobs) {
    infos.push_back(
        {.name = entry.name, .rank = entry.rank, .bytes = static_cast<std::int64_t>(entry.bytes)});
  }
  return infos;
}

std::vector<std::uint64_t> visit_extents(const internal::File& file, const CommitPage& page,
                                         const Contents& contents, World world,
                                         const std::function<void(const Extent&, bool)>& visit) {
  std::vector<std::byte> buffer(std::min(kMaxExtentBytes, page.hdf5_end));
  RowSums sums(contents);
  const auto begin = [&](int rank) {
    return static_cast<std::uint64_t>(share(static_cast<std::int64_t>(page.extent_count), rank, world.size));
  };
  read_table(file, page, begin(world.rank), begin(world.rank + 1),
             [&](std::span<const Extent> extents, std::span<const std::byte> /*bytes*/) {
               for (const Extent& extent : extents) {
                 const auto bytes = read_extent(file, extent, buffer);
                 visit(extent, bytes.size() == extent.length && digest(bytes) == extent.digest);
                 sums.add(extent.offset, bytes);  // once more while it is in the cache
               }
             });
  return sums.finish(file);
}

void require_rows(const internal::File& file, const TensorInfo& tensor, const TensorPlace& place,
                  std::uint64_t digest) {
  if (digest == place.row_digest) return;
  reject(file, fmt::format("the rows of tensor \"{}\" are not those that were saved", tensor.name));
}

std::vector<std::byte> read_stored(const internal::File& file, const Contents& contents,
                                   const BlobEntry& entry) {
  std::vector<std::byte> stored(entry.stored_bytes);
  file.read(contents.blob_offset + entry.offset, stored);
  return stored;
}

}  // namespace checkpoint

using checkpoint::Extent;

CheckpointReader::CheckpointReader(const internal::FileSystem& system, const std::filesystem::path& path)
    : impl_(std::make_unique<Checkpoint::Impl>()) {
  internal::File& file = impl_->file;
  file = internal::File(system, path.string(), O_RDONLY);
  page_ = checkpoint::read_page(file);
  impl_->info = checkpoint::to_info(page_, path);
  checkpoint::require_table(file, page_, checkpoint::digest_table(file, page_));
  impl_->contents = checkpoint::read_contents(file, page_);
  impl_->blobs = checkpoint::blob_infos(impl_->contents);
}

std::vector<std::uint64_t> CheckpointReader::verify_extents(World world) const {
  return checkpoint::visit_extents(
      impl_->file, page_, impl_->contents, world, [&](const Extent& extent, bool is_good) {
        if (is_good) return;
        checkpoint::reject(impl_->file, fmt::format("the checksum of bytes {} to {} is wrong", extent.offset,
                                                    extent.offset + extent.length - 1));
      });
}

void CheckpointReader::require_row_digests(std::span<const std::uint64_t> sums) const {
  const checkpoint::Contents& contents = impl_->contents;
  for (std::size_t t = 0; t < contents.tensors.size(); ++t) {
    checkpoint::require_rows(impl_->file, contents.tensors[t], contents.places[t], sums[t]);
  }
}

CheckpointReader CheckpointReader::open(const Communicator& ranks, const internal::FileSystem& system,
                                        const std::filesystem::path& path, std::int64_t serial) {
  std::optional<CheckpointReader> reader;
  ranks.together("open a checkpoint", [&] {
    reader.emplace(system, path);
    if (reader->page_.serial == serial) return;
    throw internal::failure(ErrorCode::corrupt,
                            "open {}: its commit page says serial {}; the file was renamed", path.string(),
                            reader->page_.serial);
  });
  const checkpoint::Digest seen_by_root = ranks::broadcast(ranks, reader->page_.contents_digest);
  std::vector<std::uint64_t> sums;
  ranks.together("verify a checkpoint", [&] {
    if (reader->page_.contents_digest != seen_by_root) {
      throw internal::failure(ErrorCode::io,
                              "open {}: this rank sees another file than rank 0 does; wait until the file "
                              "system has brought the change to all nodes",
                              path.string());
    }
    sums = reader->verify_extents({.rank = ranks.rank(), .size = ranks.size()});
  });
  ranks.sum(sums);
  reader->require_row_digests(sums);
  return std::move(*reader);
}

Checkpoint CheckpointReader::finish() && { return Checkpoint(std::move(impl_)); }

}  // namespace rota
