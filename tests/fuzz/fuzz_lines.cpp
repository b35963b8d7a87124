// Text, whose lines have the lengths that a naive look at it finds; or compressed text.

#include <zlib.h>
#include <zstd.h>

#include "format_target.hpp"

namespace {

std::vector<std::int64_t> naive_lengths(std::string_view text) {
  std::vector<std::int64_t> lengths;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const bool is_crlf = end != std::string_view::npos && end > 0 && text[end - 1] == '\r';
    lengths.push_back(static_cast<std::int64_t>(std::min(end, text.size()) - (is_crlf ? 1 : 0)));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lengths;
}

void expect_lengths(const rota::Source& source, const std::vector<std::int64_t>& expected) {
  ROTA_FUZZ_EXPECT(source.size() == std::ssize(expected));
  std::vector<rota::SampleId> ids;
  for (std::int64_t id = 0; id < source.size(); ++id) ids.push_back({id});
  std::vector<std::int64_t> lengths(ids.size());
  source.rows(ids, 0, lengths);
  ROTA_FUZZ_EXPECT(lengths == expected);
}

std::string zstd_of(const std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 1));
  return packed;
}

std::string gzip_of(const std::string& text) {
  z_stream stream{};
  ::deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string in = text;
  std::string packed(text.size() + 100, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  ::deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  return packed;
}

}  // namespace

std::vector<std::string> rota::test::seeds() {
  const std::string text = "one\n\r\n\nthree\r\n\rfour";
  return {text, std::string(3000, 'x') + "\n", zstd_of(text), gzip_of(text), gzip_of(text) + gzip_of(text)};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = rota::test::as_bytes(data, size);
  const auto path = rota::test::write_file("a.txt", bytes);
  rota::test::try_format([&] {
    auto source = rota::open_lines(rota::Catalog(path, {.indexing_threads = 1}));
    if (source->node_files() == nullptr) expect_lengths(*source, naive_lengths(rota::test::to_text(bytes)));
    return source;
  });
  return 0;
}
