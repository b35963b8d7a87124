// Text.

#include "format_target.hpp"

std::vector<std::string> rota_test::seeds() {
  return {"one\n\r\n\nthree\r\n\rfour", std::string(3000, 'x') + "\n"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = rota_test::write_file("a.txt", rota_test::as_bytes(data, size));
  rota_test::try_format([&] { return rota::open_lines(rota::Catalog(path, {.indexing_threads = 1})); });
  return 0;
}
