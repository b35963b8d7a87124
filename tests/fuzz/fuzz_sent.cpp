// Catalogs as they are sent, whose checksum the target makes right. What is saved in them has a checksum of
// its own.

#include <cstring>
#include <string_view>

#include "format_target.hpp"
#include "rota/catalog.hpp"
#include "rota/fingerprint.hpp"

namespace {

constexpr std::size_t kDigestAt = 16;
constexpr std::size_t kDigestEnd = kDigestAt + sizeof(rota::Fingerprint);

std::string listed(int files) {
  const auto data = rota::test::directory().path() / "data";
  for (int i = 0; i < files; ++i) rota::test::directory().write("data/" + std::to_string(i), "a\nb\n");
  const rota::Catalog catalog(data);
  (void)rota::open_lines(catalog);
  return catalog.serialize();
}

std::string computed(rota::FolderLayout layout) {
  for (int i = 0; i < 6; ++i)
    rota::test::directory().write("folder" + std::to_string(i % 2) + "/" + std::to_string(i / 2), "a");
  const auto pattern = rota::test::directory().path() / "folder{folder}" / "{index}";
  return rota::Catalog::from_pattern(pattern.native(), {.files = 6, .folders = 2, .layout = layout})
      .serialize();
}

}  // namespace

std::vector<std::string> rota::test::seeds() {
  return {listed(1), listed(40), computed(FolderLayout::restart)};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < kDigestEnd) return 0;
  std::string bytes(reinterpret_cast<const char*>(data), size);
  const rota::Fingerprint digest =
      rota::FingerprintBuilder().add(std::string_view(bytes).substr(kDigestEnd)).finish();
  std::memcpy(bytes.data() + kDigestAt, &digest, sizeof(digest));
  try {
    const rota::Catalog catalog = rota::Catalog::deserialize(bytes);
    for (std::int64_t i = 0; i < std::min<std::int64_t>(catalog.size(), 100); ++i) (void)catalog.path(i);
    (void)catalog.path(catalog.size() - 1);
    const rota::Catalog again = rota::Catalog::deserialize(catalog.serialize());
    ROTA_FUZZ_EXPECT(again.size() == catalog.size() && again.fingerprint() == catalog.fingerprint());
  } catch (const rota::Error& error) {
    const auto code = error.code();
    // The directory in the bytes is opened: a mutant's may not be there.
    ROTA_FUZZ_EXPECT(code == rota::ErrorCode::corrupt || code == rota::ErrorCode::unsupported ||
                     code == rota::ErrorCode::not_found || code == rota::ErrorCode::io);
  }
  return 0;
}
