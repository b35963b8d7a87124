#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "catalog/listing.hpp"
#include "core/bytes.hpp"
#include "core/failure.hpp"
#include "core/option.hpp"
#include "formats/file_memory.hpp"
#include "formats/formats.hpp"
#include "formats/records.hpp"
#include "rota/open.hpp"

namespace rota::internal {

namespace {

// The bytes before the first token: llm.c's files have a head, and NPY files and others are none of tokens,
// as any bytes are.
std::int64_t head_bytes(const DatasetFile& file, DType dtype) {
  constexpr std::int32_t kOfUint16 = 20240520;
  constexpr std::int32_t kOfUint32 = 20240801;
  constexpr std::int64_t kHead = 1024;
  const std::string head = decompress_head(file, Compression::none, 12);
  refuse_arrays(file, head.substr(0, 8), "tokens");
  refuse_foreign(file);
  if (head.size() < 12 || file.bytes() < kHead) return 0;
  const auto magic = load<std::int32_t>(std::as_bytes(std::span(head)), 0);
  if (magic != kOfUint16 && magic != kOfUint32) return 0;
  if ((magic == kOfUint32) == (dtype == DType::uint32)) {
    const auto tokens = load<std::uint32_t>(std::as_bytes(std::span(head)), 8);
    const std::uint64_t bytes = file.bytes() - kHead;
    if (bytes >= tokens * std::uint64_t{size_of(dtype)}) return kHead;
    throw file.damage(8, "its head says that it has {} tokens, and it has {} bytes of them: it was cut short",
                      tokens, bytes);
  }
  throw failure(ErrorCode::invalid_argument,
                "open {}: its head, as llm.c writes it, says that tokens are {}; not {}", file.path(),
                magic == kOfUint32 ? "uint32" : "uint16", to_string(dtype));
}

void require_whole(const DatasetFile& file, std::int64_t head, DType dtype) {
  const std::int64_t bytes = std::max<std::int64_t>(static_cast<std::int64_t>(file.bytes()) - head, 0);
  if (bytes % static_cast<std::int64_t>(size_of(dtype)) == 0) return;
  throw failure(
      ErrorCode::corrupt,
      "open {}: {} bytes are no whole number of {} tokens; the file was cut short, or holds another type",
      file.path(), bytes, to_string(dtype));
}

std::shared_ptr<const Source> open_tokens(const Catalog& catalog, const TokensOptions& options) {
  FileList files = files_of(catalog).with_sizes();
  const auto token_bytes = static_cast<std::int64_t>(size_of(options.dtype));
  const auto heads = look_into_files<std::int64_t>(
      files, fmt::format("heads of tokens {} {}", to_string(options.dtype), options.skip_bytes),
      [&](const DatasetFile& file) {
        const std::int64_t head =
            options.skip_bytes == 0 ? head_bytes(file, options.dtype) : options.skip_bytes;
        require_whole(file, head, options.dtype);
        return head;
      });
  const std::int64_t stride = options.stride == 0 ? options.length : options.stride;
  StridedLayout layout{
      .format =
          options.skip_bytes == 0 ? "tokens" : fmt::format("tokens behind {} bytes", options.skip_bytes),
      .field = {.name = "tokens", .dtype = options.dtype, .shape = {options.length}, .ragged = false},
      .stride_bytes = static_cast<std::uint64_t>(stride * token_bytes),
      .files = {}};
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::int64_t bytes = std::max<std::int64_t>(files.bytes(i) - heads[i], 0);
    const std::int64_t tokens = bytes / token_bytes;
    const std::int64_t windows = tokens < options.length ? 0 : (tokens - options.length) / stride + 1;
    layout.files.push_back({.first = static_cast<std::uint64_t>(heads[i]), .samples = windows});
  }
  return make_strided_source(std::move(files), layout);
}

}  // namespace

constinit const FormatEntry kTokensFormat =
    opened_by<open_tokens>({.name = "tokens",
                            .options = {{"dtype", option<&TokensOptions::dtype>},
                                        {"length", option<&TokensOptions::length>},
                                        {"stride", option<&TokensOptions::stride>},
                                        {"skip_bytes", option<&TokensOptions::skip_bytes>}}});

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
  kCheck.in_range("skip_bytes", skip_bytes, 0, kMost);
}

}  // namespace rota
