// The blob decoder. Input: the size that the index says, as 4 bytes, then what is stored.

#include <algorithm>

#include "digest.hpp"
#include "rota/error.hpp"
#include "stored_blobs.hpp"
#include "target.hpp"
#include "values/bytes.hpp"

namespace {

using rota::checkpoint::BlobEntry;
using rota::checkpoint::Codec;

template <typename Work>
bool succeeds(Work&& work) {
  try {
    work();
    return true;
  } catch (const rota::Error& error) {
    ROTA_FUZZ_EXPECT(error.code() == rota::ErrorCode::corrupt);
    return false;
  }
}

}  // namespace

std::vector<std::string> rota::test::seeds() {
  std::vector<std::string> seeds;
  std::string mixed;
  for (int i = 0; i < 4000; ++i) mixed += static_cast<char>(i * i % 251);
  for (const std::string& text :
       {std::string(), std::string(3000, 'a'), mixed, std::string(3'000'000, 'z')}) {
    rota::checkpoint::StoredBlobs stored;
    const std::vector<rota::checkpoint::LocalBlob> blobs{{.name = "b", .bytes = text}};
    add_blobs(stored, blobs, -1);
    const auto bytes = static_cast<std::uint32_t>(text.size());
    seeds.push_back(to_text(std::as_bytes(std::span(&bytes, 1))) + to_text(stored.bytes));
  }
  return seeds;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::uint32_t kMost = 1 << 26;  // else most of the time goes into zeros
  if (size < 4) return 0;
  const auto input = rota::test::as_bytes(data, size);
  const auto stored = input.subspan(4);
  BlobEntry entry;
  entry.bytes = std::min(rota::internal::load<std::uint32_t>(input), kMost);
  entry.stored_bytes = stored.size();
  entry.digest = rota::checkpoint::digest(stored);
  for (const Codec codec : {Codec::raw, Codec::zstd}) {
    entry.codec = codec;
    std::string out;
    const bool decodes = succeeds([&] { out = decode_blob(entry, stored, "decode"); });
    ROTA_FUZZ_EXPECT(decodes == succeeds([&] { verify_blob(entry, stored, "verify"); }));
    ROTA_FUZZ_EXPECT(!decodes || out.size() == entry.bytes);
  }
  return 0;
}
