#include <utility>

#include "core/failure.hpp"
#include "core/option.hpp"
#include "formats/formats.hpp"
#include "formats/records.hpp"
#include "rota/open.hpp"

namespace rota::internal {

std::shared_ptr<const Source> open_as(const Catalog& catalog, const TokensOptions& options) {
  FileList files = files_of(catalog).with_sizes();
  const auto token_bytes = static_cast<std::int64_t>(size_of(options.dtype));
  const std::int64_t stride = options.stride == 0 ? options.length : options.stride;
  StridedLayout layout{
      .format = "tokens",
      .field = {.name = "tokens", .dtype = options.dtype, .shape = {options.length}, .ragged = false},
      .stride_bytes = static_cast<std::uint64_t>(stride * token_bytes),
      .files = {}};
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::int64_t tokens = files.bytes(i) / token_bytes;
    if (files.bytes(i) % token_bytes != 0) {
      throw failure(
          ErrorCode::corrupt,
          "open {}: {} bytes are no whole number of {} tokens; the file was cut short, or holds another type",
          files.path(i), files.bytes(i), to_string(options.dtype));
    }
    const std::int64_t windows = tokens < options.length ? 0 : (tokens - options.length) / stride + 1;
    layout.files.push_back({.first = 0, .samples = windows});
  }
  return make_strided_source(std::move(files), layout);
}

}  // namespace rota::internal

namespace rota {

void TokensOptions::validate() const {
  constexpr internal::OptionCheck kCheck("open token files");
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  if (dtype != DType::uint16 && dtype != DType::uint32) {
    kCheck.refuse("dtype", to_string(dtype), "uint16 or uint32");
  }
  kCheck.in_range("length", length, 1, kMost);
  kCheck.in_range("stride", stride, 0, kMost, "0 = length");
}

}  // namespace rota
