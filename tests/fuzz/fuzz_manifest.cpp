// Manifests: lines of paths or of JSON.

#include "catalog/manifest.hpp"
#include "format_target.hpp"

std::vector<std::string> rota::test::seeds() {
  return {"a\nb/c.txt\r\n\n/d", "{\"path\": \"a\", \"samples\": 3}\n{\"path\": \"b\", \"x\": [1, {}]}\n",
          "s3://bucket/a\ns3://bucket/b\n"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = rota::test::write_file("list", rota::test::as_bytes(data, size));
  std::vector<std::int64_t> samples;
  std::size_t names = 0;
  try {
    rota::internal::list_manifest(
        path.native(),
        [&](std::string_view directory, std::string_view name) {
          ROTA_FUZZ_EXPECT(directory.empty() && !name.empty() && name.find('\0') == name.npos);
          ++names;
        },
        {}, samples);
    ROTA_FUZZ_EXPECT(samples.empty() || samples.size() == names);
  } catch (const rota::Error& error) {
    const auto code = error.code();
    ROTA_FUZZ_EXPECT(code == rota::ErrorCode::invalid_argument || code == rota::ErrorCode::not_found);
  }
  return 0;
}
