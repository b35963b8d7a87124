// TFRecord files. The target makes the checksums of lengths right, past which a fuzzer would not get.

#include <isa-l/crc.h>

#include <cstring>

#include "format_target.hpp"

namespace {

void seal_lengths(std::string& bytes) {
  for (std::size_t at = 0; at + 12 <= bytes.size();) {
    auto* length_bytes = reinterpret_cast<unsigned char*>(bytes.data() + at);
    const std::uint32_t crc = ~::crc32_iscsi(length_bytes, 8, ~0U);
    const std::uint32_t masked = ((crc >> 15U) | (crc << 17U)) + 0xA282EAD8U;
    std::memcpy(bytes.data() + at + 8, &masked, sizeof(masked));
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, sizeof(length));
    if (length > bytes.size() - at) return;
    at += 16 + length;
  }
}

}  // namespace

std::vector<std::string> rota::test::seeds() {
  std::string bytes;
  for (const std::uint64_t length : {5U, 0U, 300U}) {
    bytes.append(reinterpret_cast<const char*>(&length), sizeof(length));
    bytes.append(4 + length + 4, 'r');
  }
  return {bytes};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string bytes = rota::test::to_text(rota::test::as_bytes(data, size));
  seal_lengths(bytes);
  const auto path = rota::test::directory().write("a.tfrecord", bytes);
  for (const bool verifies : {true, false}) {
    rota::test::try_format([&] {
      return rota::open_tfrecord(rota::Catalog(path, {.indexing_threads = 1}), {.verify = verifies});
    });
  }
  return 0;
}
