// NPY files.

#include <fmt/format.h>

#include "format_target.hpp"

namespace {

std::string make_npy(std::string_view type, std::string_view order, std::string_view shape,
                     std::size_t bytes) {
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}", type, order, shape);
  header.resize(118, ' ');
  return fmt::format("\x93NUMPY{}{}{}{}{}", '\1', '\0', static_cast<char>(header.size()), '\0', header) +
         std::string(bytes, 'n');
}

}  // namespace

std::vector<std::string> rota::test::seeds() {
  return {make_npy("<f4", "False", "(3, 2)", 24), make_npy("|u1", "True", "(2, 3, 4)", 24),
          make_npy("<i8", "False", "()", 8), make_npy("<i2", "False", "(0, 5)", 0)};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = rota::test::write_file("a.npy", rota::test::as_bytes(data, size));
  for (const bool is_sample : {true, false}) {
    rota::test::try_format([&] {
      return rota::open_npy(rota::Catalog(path, {.indexing_threads = 1}), {.file_is_sample = is_sample});
    });
  }
  return 0;
}
