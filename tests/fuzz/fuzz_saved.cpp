// Saved catalogs, whose checksum the target makes right.

#include <xxhash.h>

#include <array>
#include <cstring>
#include <fstream>
#include <iterator>

#include "catalog/files.hpp"
#include "catalog/saved.hpp"
#include "format_target.hpp"

namespace {

constexpr std::size_t kBytesAt = 16;
constexpr std::size_t kDigestAt = 32;
constexpr std::size_t kContentAt = 48;

// A catalog of some files in which one format has found something, as it is saved.
std::string save(int files) {
  const auto data = rota::test::directory().path() / "data";
  for (int i = 0; i < files; ++i) rota::test::directory().write("data/" + std::to_string(i), "a\nb\n");
  const rota::Catalog catalog(data);
  (void)rota::open_lines(catalog);
  const auto path = rota::test::directory().path() / "saved";
  catalog.save(path);
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::vector<std::string> rota::test::seeds() { return {save(1), save(40)}; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < kContentAt) return 0;
  std::vector<std::byte> bytes(size);
  std::memcpy(bytes.data(), data, size);
  const std::uint64_t content = size - kContentAt;
  const XXH128_hash_t digest = XXH3_128bits(bytes.data() + kContentAt, content);
  const std::array words = {digest.high64, digest.low64};
  std::memcpy(bytes.data() + kBytesAt, &content, sizeof(content));
  std::memcpy(bytes.data() + kDigestAt, words.data(), sizeof(words));
  const auto path = rota::test::write_file("fuzzed", bytes);
  try {
    const rota::internal::SavedCatalog catalog = rota::internal::read_catalog(path.native(), {});
    ROTA_FUZZ_EXPECT(!rota::internal::compare(*catalog.files, *catalog.files).any());
    for (const auto& [signature, index] : catalog.indices) {
      for (std::size_t i = 0; i < index->files().size(); ++i) (void)(*index)[i];
    }
  } catch (const rota::Error& error) {
    const auto code = error.code();
    ROTA_FUZZ_EXPECT(code == rota::ErrorCode::corrupt || code == rota::ErrorCode::unsupported);
  }
  return 0;
}
