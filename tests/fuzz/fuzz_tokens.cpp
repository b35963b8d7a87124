// Windows over tokens. Input: type, length and stride, each as small or as wild as they come; then the
// tokens.

#include <cstring>

#include "format_target.hpp"

namespace {

constexpr std::size_t kHeadBytes = 1 + 2 * sizeof(std::int64_t);

std::string make_input(bool is_wide, std::int64_t length, std::int64_t stride, std::size_t bytes) {
  std::string input(1, is_wide ? '\1' : '\0');
  for (const std::int64_t value : {length, stride}) {
    input.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return input + std::string(bytes, 't');
}

}  // namespace

std::vector<std::string> rota::test::seeds() {
  return {make_input(false, 10, 0, 100), make_input(true, 3, 1, 40), make_input(false, 1, 1, 7),
          make_input(true, std::int64_t{1} << 40, std::int64_t{1} << 40, 16)};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < kHeadBytes) return 0;
  rota::TokensOptions options{.dtype = (data[0] & 1U) != 0 ? rota::DType::uint32 : rota::DType::uint16};
  std::memcpy(&options.length, data + 1, sizeof(options.length));
  std::memcpy(&options.stride, data + 1 + sizeof(options.length), sizeof(options.stride));
  const auto path = rota::test::write_file("a.bin", rota::test::as_bytes(data, size).subspan(kHeadBytes));
  rota::test::try_format([&] { return rota::open_tokens(path, options); });
  return 0;
}
