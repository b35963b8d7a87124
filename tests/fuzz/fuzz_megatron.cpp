// Megatron-LM's indices. Input: the index; its data is always the same.

#include "format_target.hpp"

std::vector<std::string> rota::test::seeds() {
  std::string bytes("MMIDIDX\0\0", 9);
  const auto add = [&](const auto& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  add(std::uint64_t{1});
  add(std::uint8_t{8});
  add(std::uint64_t{3});
  add(std::uint64_t{4});
  for (const std::int32_t length : {100, 7, 0}) add(length);
  for (const std::int64_t place : {0, 200, 214}) add(place);
  for (const std::int64_t first : {0, 2, 2, 3}) add(first);
  return {bytes, bytes + std::string(3, '\1')};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  rota::test::directory().write("a.bin", std::string(300, 't'));
  const auto path = rota::test::write_file("a.idx", rota::test::as_bytes(data, size));
  for (const bool sequences : {false, true}) {
    rota::test::try_format([&] {
      return rota::open_megatron(rota::Catalog(path, {.indexing_threads = 1}),
                                 {.sequence_is_sample = sequences});
    });
  }
  return 0;
}
