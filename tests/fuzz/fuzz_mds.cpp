// MosaicML's shards. Input: bytes of the shard (uint16, its highest bit set where the file is a compressed
// one), the shard's file, then index.json.

#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "format_target.hpp"

namespace {

constexpr std::uint16_t kPacked = 0x8000;

std::string input_of(const std::string& file, std::uint16_t flags, const std::string& index) {
  const auto bytes = static_cast<std::uint16_t>(file.size() | flags);
  return std::string(reinterpret_cast<const char*>(&bytes), sizeof(bytes)) + file + index;
}

}  // namespace

std::vector<std::string> rota::test::seeds() {
  std::string shard;
  const auto add = [&](std::uint32_t value) {
    shard.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  add(2);  // samples
  for (const std::uint32_t at : {16U, 39U, 60U}) add(at);
  for (const std::uint32_t text : {4U, 2U}) {
    add(3);
    add(text);
    shard.append("\x04\x01v", 3).append(text, 's').append(8, 'i');
  }
  std::string packed(ZSTD_compressBound(shard.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), shard.data(), shard.size(), 1));
  const std::string index = fmt::format(
      R"({{"version": 2, "shards": [{{"column_names": ["a", "b", "c"], "column_encodings": )"
      R"(["ndarray:uint8", "str", "int"], "column_sizes": [null, null, 8], "compression": "zstd:1", )"
      R"("format": "mds", "version": 2, "raw_data": {{"basename": "a.mds", "bytes": {}}}, "samples": 2, )"
      R"("zip_data": {{"basename": "a.mds.zstd", "bytes": {}}}}}]}})",
      shard.size(), packed.size());
  return {input_of(shard, 0, index), input_of(packed, kPacked, index)};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::uint16_t shard_bytes = 0;
  if (size < sizeof(shard_bytes)) return 0;
  std::memcpy(&shard_bytes, data, sizeof(shard_bytes));
  const auto input = rota::test::as_bytes(data, size).subspan(sizeof(shard_bytes));
  const bool is_packed = (shard_bytes & kPacked) != 0;
  const auto shard = input.first(std::min<std::size_t>(shard_bytes & ~std::uint32_t{kPacked}, input.size()));
  std::filesystem::remove(rota::test::directory() / "a.mds");
  rota::test::write_file(is_packed ? "a.mds.zstd" : "a.mds", shard);
  const auto path = rota::test::write_file("index.json", input.subspan(shard.size()));
  rota::test::try_format([&] { return rota::open_mds(rota::Catalog(path, {.indexing_threads = 1})); });
  return 0;
}
