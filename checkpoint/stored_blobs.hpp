#pragma once

// Blobs on their way into a file: compressed, checksummed, and passed from rank to rank.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.hpp"
#include "digest.hpp"
#include "snapshot_data.hpp"

namespace rota::checkpoint {

enum class Codec : std::uint8_t { raw = 0, zstd = 1 };

/// The most that a stored byte may stand for; zstd makes less of it at its best.
inline constexpr std::uint64_t kMaxCompression = 65'536;

/// A blob as it is stored. `offset` counts from the first byte of all blobs.
struct BlobEntry {
  std::string name;
  std::int32_t rank = -1;  ///< -1: the job's
  Codec codec = Codec::raw;
  std::uint64_t offset = 0;
  std::uint64_t stored_bytes = 0;
  std::uint64_t bytes = 0;
  Digest digest;  ///< of the stored bytes
};

/// Calls `visit` for all of an entry but its name, in the order of the file.
template <typename Entry, typename Visit>
void visit_numbers(Entry& entry, const Visit& visit) {
  visit(entry.rank);
  visit(entry.codec);
  visit(entry.offset);
  visit(entry.stored_bytes);
  visit(entry.bytes);
  visit(entry.digest);
}

/// Entries and, in their order and without gaps, what they stand for.
struct StoredBlobs {
  std::vector<BlobEntry> entries;
  std::vector<std::byte> bytes;
};

/// Adds `blobs`, compressed where that makes them smaller, as those of `rank`.
void add_blobs(StoredBlobs& stored, std::span<const LocalBlob> blobs, std::int32_t rank);

/// Entries as FORMAT.md says, and back. `decode_entries` checks no more than that they do not end early.
void encode_entries(std::span<const BlobEntry> entries, internal::ByteWriter& bytes);
[[nodiscard]] std::vector<BlobEntry> decode_entries(internal::ByteReader& bytes);

/// All of them as one message, and back: behind those that `blobs` has.
[[nodiscard]] std::vector<std::byte> to_message(const StoredBlobs& blobs);
void append_message(StoredBlobs& blobs, std::span<const std::byte> message);

/// The blob that `stored` holds. Takes memory only for what comes out of it, and 8 MiB at most beside; throws
/// Error{corrupt} headed by `what`.
[[nodiscard]] std::string decode_blob(const BlobEntry& entry, std::span<const std::byte> stored,
                                      std::string_view what);
/// Throws what `decode_blob` throws, and keeps no more than a piece of the blob at a time.
void verify_blob(const BlobEntry& entry, std::span<const std::byte> stored, std::string_view what);

}  // namespace rota::checkpoint
