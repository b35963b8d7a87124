#include "formats/file_memory.hpp"

#include <fmt/format.h>

#include <utility>

#include "formats/decompression.hpp"
#include "formats/open_files.hpp"
#include "rota/error.hpp"

namespace rota::internal {
namespace {

// How many bytes a packed byte can become. A block of zstd takes 4 bytes or more, and holds 128 KiB or less
// (RFC 8878, 3.1.1.2); a match of deflate takes 2 bits or more, and is of 258 bytes or less (RFC 1951).
std::int64_t most_ratio(Compression compression) {
  return compression == Compression::zstd ? (128 << 10) / 4 : compression == Compression::gzip ? 1032 : 1;
}

void check_possible(const RecordFile& file, const FileEncoding& as) {
  if (as.raw_bytes < 0) return;
  const auto packed = static_cast<std::int64_t>(file.bytes());
  if (as.raw_bytes / most_ratio(as.compression) <= packed) return;
  throw file.damage(0, fmt::format("its {} bytes cannot unpack to the {} that were to come; restore it",
                                   packed, as.raw_bytes));
}

// Does what needs memory that others can open.
auto in_memory(const RecordFile& file, const auto& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(
        error.code(),
        fmt::format(
            "fetch {} into memory: {}; where memory or descriptors are short, have fewer shards there "
            "at a time (LoaderOptions::interleave), or less kept (CatalogOptions::shared_memory_limit)",
            file.path(), error.what()));
  }
}

// A number of bytes that was to come has come, or may still.
void check_size(const RecordFile& file, const FileEncoding& as, std::size_t raw_bytes, bool is_end) {
  if (as.raw_bytes < 0) return;
  const auto bytes = static_cast<std::int64_t>(raw_bytes);
  if (bytes > as.raw_bytes) {
    throw file.damage(file.bytes(), fmt::format("it unpacks to more than the {} bytes that were to come; "
                                                "restore it",
                                                as.raw_bytes));
  }
  if (!is_end || bytes == as.raw_bytes) return;
  throw file.damage(file.bytes(), fmt::format("it unpacks to {} bytes, and {} were to come; restore it",
                                              bytes, as.raw_bytes));
}

}  // namespace

std::vector<FileEncoding> as_they_are(const FileList& files) {
  std::vector<FileEncoding> result(files.size());
  for (std::size_t i = 0; i < result.size(); ++i) result[i].raw_bytes = files.bytes(i);
  return result;
}

std::shared_ptr<const FileMemory> fetch_file(const FileList& files, std::size_t i, const FileEncoding& as) {
  const Descriptor opened = open_unchanged(files, i);
  const RecordFile file{.files = files, .index = i, .fd = opened.get()};
  check_possible(file, as);
  auto memory = in_memory(file, [] { return MemoryFile("rota-file"); });
  decompress(file, as.compression, [&](std::span<const std::byte> raw) {
    check_size(file, as, memory.bytes() + raw.size(), false);
    in_memory(file, [&] { memory.append(raw); });
    return true;
  });
  check_size(file, as, memory.bytes(), true);
  return in_memory(file, [&] {
    memory.seal();
    return std::make_shared<const FileMemory>(std::move(memory));
  });
}

}  // namespace rota::internal
