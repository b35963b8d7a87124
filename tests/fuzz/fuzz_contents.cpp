// The list of contents. Input: hdf5_end and world_size, 8 bytes each, then the contents.

#include <algorithm>

#include "contents.hpp"
#include "rota/error.hpp"
#include "target.hpp"
#include "values/bytes.hpp"

namespace {

using rota::checkpoint::Codec;
using rota::checkpoint::Contents;
using rota::checkpoint::decode_contents;
using rota::checkpoint::encode_contents;
using rota::internal::ByteWriter;
using rota::internal::load;

Contents make_contents() {
  Contents contents;
  contents.tensors = {{.name = "a", .dtype = rota::DType::int64, .shape = {16, 2}},
                      {.name = "b/c", .dtype = rota::DType::float32, .shape = {4}},
                      {.name = "none", .dtype = rota::DType::boolean, .shape = {0, 1, 1}}};
  contents.places = {{.offset = 8192, .row_bytes = 16, .row_digest = 1},
                     {.offset = 5000, .row_bytes = 4, .row_digest = 2},
                     {.offset = 0, .row_bytes = 1, .row_digest = 0}};
  contents.blob_offset = 9000;
  contents.blob_bytes = 30;
  contents.blobs = {{.name = "state", .stored_bytes = 10, .bytes = 10, .digest = {}},
                    {.name = "rng",
                     .rank = 1,
                     .codec = Codec::zstd,
                     .offset = 10,
                     .stored_bytes = 20,
                     .bytes = 900,
                     .digest = {}}};
  return contents;
}

std::string with_sizes(std::uint64_t hdf5_end, std::int64_t world_size, const Contents& contents) {
  ByteWriter bytes;
  bytes.add(hdf5_end);
  bytes.add(world_size);
  bytes.add_bytes(encode_contents(contents));
  return rota::test::to_text(std::move(bytes).take());
}

}  // namespace

std::vector<std::string> rota::test::seeds() {
  return {with_sizes(10'000, 2, make_contents()), with_sizes(5000, 1, {})};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 16) return 0;
  const auto input = rota::test::as_bytes(data, size);
  const auto bytes = input.subspan(16);
  try {
    const Contents contents =
        decode_contents(bytes, load<std::uint64_t>(input), load<std::int64_t>(input, 8), "");
    // There is one way only to say it.
    ROTA_FUZZ_EXPECT(std::ranges::equal(encode_contents(contents), bytes));
  } catch (const rota::Error& error) {
    ROTA_FUZZ_EXPECT(error.code() == rota::ErrorCode::corrupt);
  }
  return 0;
}
