#include "stored_blobs.hpp"

#include <zstd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "core/failure.hpp"
#include "core/owned.hpp"

namespace rota::checkpoint {
namespace {

// Level 1 makes this kind of data smaller than 3 does, and faster.
constexpr int kLevel = 1;

// A decompressor sets this much memory aside before anything has come out: 8 MiB, as FORMAT.md allows.
constexpr int kMaxWindowLog = 23;

// Appends `raw` to `out` as `entry` then says.
void compress(std::span<const std::byte> raw, BlobEntry& entry, std::vector<std::byte>& out) {
  const std::size_t at = out.size();
  out.resize(at + ZSTD_compressBound(raw.size()));
  const std::size_t compressed =
      ZSTD_compress(out.data() + at, out.size() - at, raw.data(), raw.size(), kLevel);
  if (ZSTD_isError(compressed) == 0 && compressed < raw.size()) {
    entry.codec = Codec::zstd;
    out.resize(at + compressed);
  } else {
    entry.codec = Codec::raw;
    out.resize(at);
    out.insert(out.end(), raw.begin(), raw.end());
  }
  entry.bytes = raw.size();
  entry.offset = at;
  entry.stored_bytes = out.size() - at;
  entry.digest = digest(std::span(out).subspan(at));
}

[[noreturn]] void reject(std::string_view what, std::string_view why) {
  throw internal::failure(ErrorCode::corrupt, "{}: {}", what, why);
}

// Decompresses what `entry` says, piece by piece: `room(done)` says where to put what follows `done` bytes.
// How many there will be is so far only what a file says.
void decompress(const BlobEntry& entry, std::span<const std::byte> stored, std::string_view what,
                const std::function<std::span<std::byte>(std::uint64_t done)>& room) {
  const std::unique_ptr<ZSTD_DCtx, internal::FreeBy<ZSTD_freeDCtx>> context(ZSTD_createDCtx());
  if (context == nullptr ||
      ZSTD_isError(ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, kMaxWindowLog)) != 0) {
    throw std::bad_alloc();
  }
  ZSTD_inBuffer in{.src = stored.data(), .size = stored.size(), .pos = 0};
  std::uint64_t done = 0;
  for (std::size_t rest = 1; rest != 0;) {
    const auto out = room(done);
    ZSTD_outBuffer piece{.dst = out.data(), .size = out.size(), .pos = 0};
    const std::size_t had = in.pos;
    rest = ZSTD_decompressStream(context.get(), &piece, &in);
    if (ZSTD_isError(rest) != 0) reject(what, ZSTD_getErrorName(rest));
    if (rest != 0 && piece.pos == 0 && in.pos == had) {
      reject(what, "it ends early, or is longer than its index says");
    }
    done += piece.pos;
  }
  if (done != entry.bytes || in.pos != in.size) reject(what, "it is not as long as its index says");
}

// What can be told without decompressing.
void require_sound(const BlobEntry& entry, std::span<const std::byte> stored, std::string_view what) {
  if (digest(stored) != entry.digest) reject(what, "its checksum is wrong");
  const std::uint64_t bytes =
      entry.codec == Codec::raw ? stored.size() : ZSTD_getFrameContentSize(stored.data(), stored.size());
  if (bytes != entry.bytes || entry.bytes / kMaxCompression > stored.size()) {
    reject(what, "its sizes contradict one another");
  }
}

constexpr std::uint64_t kPieceBytes = 1 << 20;

}  // namespace

void add_blobs(StoredBlobs& stored, std::span<const LocalBlob> blobs, std::int32_t rank) {
  for (const LocalBlob& blob : blobs) {
    BlobEntry entry;
    entry.name = blob.name;
    entry.rank = rank;
    compress(std::as_bytes(std::span(blob.bytes)), entry, stored.bytes);
    stored.entries.push_back(std::move(entry));
  }
}

void encode_entries(std::span<const BlobEntry> entries, internal::ByteWriter& bytes) {
  bytes.add(static_cast<std::uint64_t>(entries.size()));
  for (const BlobEntry& entry : entries) {
    bytes.add_string(entry.name);
    visit_numbers(entry, [&](const auto& number) { bytes.add(number); });
  }
}

std::vector<BlobEntry> decode_entries(internal::ByteReader& bytes) {
  std::vector<BlobEntry> entries;
  const auto count = bytes.next<std::uint64_t>();
  for (std::uint64_t i = 0; i < count; ++i) {
    BlobEntry entry;
    entry.name = bytes.next_string();
    visit_numbers(entry, [&](auto& number) { number = bytes.next<std::decay_t<decltype(number)>>(); });
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::vector<std::byte> to_message(const StoredBlobs& blobs) {
  internal::ByteWriter message;
  encode_entries(blobs.entries, message);
  message.add_bytes(blobs.bytes);
  return std::move(message).take();
}

void append_message(StoredBlobs& blobs, std::span<const std::byte> message) {
  internal::ByteReader bytes(message, "read the blobs of a rank");
  for (BlobEntry& entry : decode_entries(bytes)) {
    entry.offset += blobs.bytes.size();
    blobs.entries.push_back(std::move(entry));
  }
  blobs.bytes.insert(blobs.bytes.end(), bytes.rest().begin(), bytes.rest().end());
}

std::string decode_blob(const BlobEntry& entry, std::span<const std::byte> stored, std::string_view what) {
  require_sound(entry, stored, what);
  if (entry.codec == Codec::raw) return {reinterpret_cast<const char*>(stored.data()), stored.size()};
  std::string out;
  decompress(entry, stored, what, [&](std::uint64_t done) {
    if (done == out.size()) out.resize(std::min(entry.bytes, std::max(kPieceBytes, 2 * done)));
    return std::as_writable_bytes(std::span(out)).subspan(done);
  });
  return out;
}

void verify_blob(const BlobEntry& entry, std::span<const std::byte> stored, std::string_view what) {
  require_sound(entry, stored, what);
  if (entry.codec == Codec::raw) return;
  std::vector<std::byte> buffer(std::min(entry.bytes, kPieceBytes));
  decompress(entry, stored, what, [&](std::uint64_t done) {
    return std::span(buffer).first(std::min(entry.bytes - done, kPieceBytes));
  });
}

}  // namespace rota::checkpoint
