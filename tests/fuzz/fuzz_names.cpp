// Tables of file names.

#include <fmt/format.h>

#include "catalog/name_table.hpp"
#include "rota/error.hpp"
#include "target.hpp"

std::vector<std::string> rota::test::seeds() {
  std::vector<std::string> seeds;
  for (const int count : {0, 3, 1500}) {
    rota::internal::NameTableBuilder builder;
    for (int i = 0; i < count; ++i) builder.add("d/", fmt::format("name-{}", i * i));
    seeds.push_back(to_text(builder.finish().bytes()));
  }
  return seeds;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kMost = 5000;
  try {
    const rota::internal::NameTable table(rota::test::as_bytes(data, size), nullptr);
    rota::internal::NameReader reader(table);
    for (std::size_t i = 0; i < std::min(table.size(), kMost); ++i) {
      const std::string in_order = reader[i];
      if (i % 97 == 0) ROTA_FUZZ_EXPECT(table[i] == in_order);
    }
  } catch (const rota::Error& error) {
    ROTA_FUZZ_EXPECT(error.code() == rota::ErrorCode::corrupt);
  }
  return 0;
}
