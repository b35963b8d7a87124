#include "blob_pack.hpp"

#include <fmt/format.h>
#include <zstd.h>

#include <utility>

#include "little_endian.hpp"
#include "rota/error.hpp"

namespace rota::checkpoint {
namespace {

// Level 1 packs this kind of data better than 3, and faster.
constexpr int kLevel = 1;

template <typename T>
void push(std::vector<std::byte>& bytes, const T& value) {
  const std::size_t at = bytes.size();
  bytes.resize(at + sizeof(T));
  put(bytes, at, value);
}

// Appends `raw` to `out` as `entry` then says.
void store(std::span<const std::byte> raw, BlobEntry& entry, std::vector<std::byte>& out) {
  const std::size_t at = out.size();
  out.resize(at + ZSTD_compressBound(raw.size()));
  const std::size_t packed = ZSTD_compress(out.data() + at, out.size() - at, raw.data(), raw.size(), kLevel);
  if (ZSTD_isError(packed) == 0 && packed < raw.size()) {
    entry.codec = Codec::zstd;
    out.resize(at + packed);
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

}  // namespace

void add_blobs(BlobPack& pack, std::span<const LocalBlob> blobs, std::int32_t rank) {
  for (const LocalBlob& blob : blobs) {
    BlobEntry entry;
    entry.name = blob.name;
    entry.rank = rank;
    store(std::as_bytes(std::span(blob.bytes)), entry, pack.bytes);
    pack.entries.push_back(std::move(entry));
  }
}

void append(BlobPack& pack, BlobPack other) {
  for (BlobEntry& entry : other.entries) {
    entry.offset += pack.bytes.size();
    pack.entries.push_back(std::move(entry));
  }
  pack.bytes.insert(pack.bytes.end(), other.bytes.begin(), other.bytes.end());
}

std::vector<std::byte> to_message(const BlobPack& pack) {
  std::vector<std::byte> message;
  push(message, static_cast<std::uint64_t>(pack.entries.size()));
  for (const BlobEntry& entry : pack.entries) {
    push(message, static_cast<std::uint64_t>(entry.name.size()));
    const auto name = std::as_bytes(std::span(entry.name));
    message.insert(message.end(), name.begin(), name.end());
    push(message, entry.rank);
    push(message, entry.codec);
    push(message, entry.offset);
    push(message, entry.stored_bytes);
    push(message, entry.bytes);
    push(message, entry.digest);
  }
  message.insert(message.end(), pack.bytes.begin(), pack.bytes.end());
  return message;
}

BlobPack from_message(std::span<const std::byte> message) {
  std::size_t at = 0;
  const auto next = [&]<typename T>(T& value) {
    value = get<T>(message, at);
    at += sizeof(T);
  };
  std::uint64_t count = 0;
  next(count);
  BlobPack pack;
  pack.entries.resize(count);
  for (BlobEntry& entry : pack.entries) {
    std::uint64_t length = 0;
    next(length);
    entry.name.assign(reinterpret_cast<const char*>(message.data() + at), length);
    at += length;
    next(entry.rank);
    next(entry.codec);
    next(entry.offset);
    next(entry.stored_bytes);
    next(entry.bytes);
    next(entry.digest);
  }
  pack.bytes.assign(message.begin() + static_cast<std::ptrdiff_t>(at), message.end());
  return pack;
}

std::string unpack(const BlobEntry& entry, std::span<const std::byte> stored, std::string_view what) {
  const auto fail = [&](std::string_view why) {
    throw Error(ErrorCode::corrupt, fmt::format("{}: {}", what, why));
  };
  if (digest(stored) != entry.digest) fail("its checksum is wrong");
  if (entry.codec == Codec::raw) {
    if (entry.bytes != stored.size()) fail("its sizes contradict one another");
    return {reinterpret_cast<const char*>(stored.data()), stored.size()};
  }
  if (ZSTD_getFrameContentSize(stored.data(), stored.size()) != entry.bytes ||
      entry.bytes / kMaxCompression > stored.size()) {
    fail("its sizes contradict one another");
  }
  std::string bytes(entry.bytes, '\0');
  const std::size_t count = ZSTD_decompress(bytes.data(), bytes.size(), stored.data(), stored.size());
  if (ZSTD_isError(count) != 0) fail(ZSTD_getErrorName(count));
  if (count != bytes.size()) fail("it is shorter than its index says");
  return bytes;
}

}  // namespace rota::checkpoint
