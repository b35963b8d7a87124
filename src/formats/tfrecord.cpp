#include <isa-l/crc.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <string>

#include "core/bytes.hpp"
#include "formats/formats.hpp"
#include "formats/records.hpp"
#include "rota/error.hpp"

namespace rota::internal {
namespace {

// A record: its length (uint64), that length's checksum (uint32), its bytes, and their checksum.
constexpr std::size_t kHeadBytes = 12;
constexpr std::size_t kFootBytes = 4;

// CRC32C as TensorFlow masks it (tensorflow/core/lib/hash/crc32c.h): a checksum of data that holds checksums
// would be weak.
std::uint32_t masked_crc(std::span<const std::byte> bytes) {
  constexpr std::size_t kMostAtOnce = std::numeric_limits<int>::max() / 2;
  std::uint32_t crc = ~0U;
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), kMostAtOnce));
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): ISA-L only reads it
    auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(part.data()));
    crc = crc32_iscsi(data, static_cast<int>(part.size()), crc);
    bytes = bytes.subspan(part.size());
  }
  crc = ~crc;
  return ((crc >> 15U) | (crc << 17U)) + 0xA282EAD8U;
}

// As TensorFlow's GZIP and ZLIB have it. A length may begin as these do, and has its checksum.
Compression tfrecord_compression(const DatasetFile& file) {
  const Compression compression = compression_of(file);
  std::array<std::byte, kHeadBytes> head{};
  if (file.read_up_to_end(0, head) < 2) return compression;
  if (masked_crc(std::span(head).first(8)) == load<std::uint32_t>(head, 8)) return Compression::none;
  const auto first = std::to_integer<unsigned>(head[0]);
  const bool is_zlib = first == 0x78 && (first * 256 + std::to_integer<unsigned>(head[1])) % 31 == 0;
  return is_zlib ? Compression::gzip : compression;
}

class TfRecordFormat final : public RecordFormat {
 public:
  explicit TfRecordFormat(bool verifies)
      : RecordFormat("tfrecord", {{.name = "data", .ragged = true}}), verifies_(verifies) {}

  [[nodiscard]] FileEncoding encoding(const DatasetFile& file) const override {
    return {.compression = tfrecord_compression(file)};
  }

  [[nodiscard]] RecordIndex index(const DatasetFile& file) const override {
    RecordIndex index;
    for (std::uint64_t at = 0; at < file.bytes();) {
      const auto head = file.at(at, kHeadBytes);
      if (head.size() < kHeadBytes) throw file.damage(at, "a record's head is cut short");
      const auto length = load<std::uint64_t>(head);
      if (masked_crc(head.first(8)) != load<std::uint32_t>(head, 8)) {
        throw file.damage(at,
                          "the checksum of a record's length is wrong: it is damaged, or no TFRecord file");
      }
      const std::uint64_t rest = file.bytes() - at - kHeadBytes;
      if (rest < kFootBytes || length > rest - kFootBytes) {
        throw file.damage(at,
                          "a record of {} bytes begins, and the file ends {} bytes later: it was cut short "
                          "or is still being written",
                          length, rest);
      }
      index.ranges.push_back({.offset = at + kHeadBytes, .bytes = length});
      at += kHeadBytes + length + kFootBytes;
    }
    index.samples = std::ssize(index.ranges);
    return index;
  }

  [[nodiscard]] bool has_plain_ranges(const DatasetFile& /*file*/) const override { return !verifies_; }
  [[nodiscard]] std::size_t foot_bytes() const override { return kFootBytes; }
  void check(const DatasetFile& file, const ByteRange& range, std::span<const std::byte> bytes,
             std::span<const std::byte> foot) const override {
    if (masked_crc(bytes) == load<std::uint32_t>(foot)) return;
    throw file.damage(range.offset, "the checksum of a record of {} bytes is wrong", bytes.size());
  }

 private:
  bool verifies_;
};

// With a length and its right checksum.
bool is_tfrecord(const FileList& files, std::size_t i) {
  const DatasetFile file = files.open(i);
  try {
    const std::string head = decompress_head(file, tfrecord_compression(file), kHeadBytes);
    const auto bytes = std::as_bytes(std::span(head));
    return bytes.size() == kHeadBytes && masked_crc(bytes.first(8)) == load<std::uint32_t>(bytes, 8);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::corrupt) throw;
    return false;  // it begins as if it were compressed
  }
}

std::shared_ptr<const Source> open_tfrecord(const Catalog& catalog, const TfRecordOptions& options) {
  return make_record_source(files_of(catalog).with_sizes(), std::make_unique<TfRecordFormat>(options.verify),
                            "tfrecord");
}

}  // namespace

void append_tfrecord(std::string& to, std::span<const std::byte> bytes) {
  const std::uint64_t length = bytes.size();
  for (const auto part : {std::as_bytes(std::span(&length, 1)), bytes}) {
    const std::uint32_t crc = masked_crc(part);
    to.append(reinterpret_cast<const char*>(part.data()), part.size());
    to.append(reinterpret_cast<const char*>(&crc), sizeof(crc));
  }
}

constinit const FormatEntry kTfRecordFormat =
    opened_by<open_tfrecord>({.name = "tfrecord",
                              .endings = {".tfrecord", ".tfrecords"},
                              .begins = is_tfrecord,
                              .may_be_empty = true,
                              .unpacks = true,
                              .options = {{"verify", option<&TfRecordOptions::verify>}}});

}  // namespace rota::internal
