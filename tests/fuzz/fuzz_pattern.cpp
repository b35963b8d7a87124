// Patterns of names: what is read from one is written as it was.

#include "catalog/name_pattern.hpp"
#include "rota/error.hpp"
#include "target.hpp"

std::vector<std::string> rota::test::seeds() {
  return {"train/{folder:02}/img_{index:08}_of_{total}.npz", "{{a}}/{index}", "no field at all"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto pattern =
        rota::internal::NamePattern::parse(rota::test::to_text(rota::test::as_bytes(data, size)));
    ROTA_FUZZ_EXPECT(rota::internal::NamePattern::parse(pattern.text()).parts() == pattern.parts());
    pattern.require_names();
    ROTA_FUZZ_EXPECT(pattern.has(rota::internal::NameField::index));
  } catch (const rota::Error& error) {
    ROTA_FUZZ_EXPECT(error.code() == rota::ErrorCode::invalid_argument);
  }
  return 0;
}
