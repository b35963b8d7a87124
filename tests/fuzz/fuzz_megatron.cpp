// Megatron-LM's indices. Input: the index; its data is always the same.

#include "format_target.hpp"

std::vector<std::string> rota_test::seeds() {
  std::string bytes("MMIDIDX\0\0", 9);
  const auto add = [&](const auto& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  add(std::uint64_t{1});
  add(std::uint8_t{8});
  add(std::uint64_t{2});
  add(std::uint64_t{3});
  for (const std::int32_t length : {100, 7}) add(length);
  for (const std::int64_t place : {0, 200}) add(place);
  for (const std::int64_t document : {0, 1, 2}) add(document);
  return {bytes};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  rota_test::directory().write("a.bin", std::string(300, 't'));
  const auto path = rota_test::write_file("a.idx", rota_test::as_bytes(data, size));
  rota_test::try_format([&] { return rota::open_megatron(rota::Catalog(path, {.indexing_threads = 1})); });
  return 0;
}
