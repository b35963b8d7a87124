// The whole reader. Input: a file, whose checksums and sizes are made right here, for no fuzzer guesses them.

#include <filesystem>
#include <fstream>
#include <iterator>

#include "checkpoint/forge.hpp"
#include "checkpoint/memory_file.hpp"
#include "rota/checkpoint_directory.hpp"
#include "rota/error.hpp"
#include "target.hpp"
#include "values/bytes.hpp"

namespace {

using rota::internal::load;
using rota::internal::store;

constexpr std::size_t kHdf5EndAt = 72;
constexpr std::size_t kFileBytesAt = 80;
constexpr std::size_t kExtentCountAt = 88;
constexpr std::size_t kContentsBytesAt = 128;

void mend_sizes(std::span<std::byte> file) {
  if (file.size() < rota::checkpoint::kPageBytes) return;
  store(file, kFileBytesAt, std::uint64_t{file.size()});
  const auto contents_at =
      load<std::uint64_t>(file, kHdf5EndAt) + 32 * load<std::uint64_t>(file, kExtentCountAt);
  if (contents_at < file.size()) store(file, kContentsBytesAt, file.size() - contents_at);
}

enum class Outcome { good, corrupt, unsupported };

template <typename Work>
Outcome outcome_of(Work&& work) {
  try {
    return work() ? Outcome::good : Outcome::corrupt;
  } catch (const rota::Error& error) {
    const bool is_newer = error.code() == rota::ErrorCode::unsupported;
    ROTA_FUZZ_EXPECT(is_newer || error.code() == rota::ErrorCode::corrupt);
    return is_newer ? Outcome::unsupported : Outcome::corrupt;
  }
}

std::string save(const rota::Snapshot& snapshot) {
  std::string name = (std::filesystem::temp_directory_path() / "rota_fuzz_XXXXXX").string();
  const std::filesystem::path directory = mkdtemp(name.data());
  const auto path = rota::CheckpointDirectory({}, directory).save(1, snapshot).info.path;
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::filesystem::remove_all(directory);
  return bytes;
}

// With no more of HDF5 than there is data, so that a fuzzer does not lose itself in bytes that nobody reads.
std::string without_hdf5(const std::string& file) {
  rota::test::Parts parts = rota::test::take_apart(std::as_bytes(std::span(file)));
  rota::checkpoint::Contents contents = contents_of(parts);
  std::vector<std::byte> data;
  const auto move = [&](std::uint64_t& offset, std::uint64_t bytes) {
    const auto part = std::span(parts.hdf5).subspan(offset - 4096, bytes);
    offset = 4096 + data.size();
    data.insert(data.end(), part.begin(), part.end());
  };
  for (std::size_t t = 0; t < contents.tensors.size(); ++t) {
    const auto bytes = contents.tensors[t].rows() * contents.places[t].row_bytes;
    if (bytes > 0) move(contents.places[t].offset, static_cast<std::uint64_t>(bytes));
  }
  move(contents.blob_offset, contents.blob_bytes);
  parts.hdf5 = data;
  parts.table = {{.offset = 4096, .length = 100, .digest = {}},
                 {.offset = 4196, .length = data.size() - 100, .digest = {}}};
  parts.contents = encode_contents(contents);
  return rota::test::to_text(put_together(parts));
}

}  // namespace

std::vector<std::string> rota::test::seeds() {
  rota::Snapshot snapshot;
  snapshot.tensor("a", rota::DType::int32, {2}, 8, std::vector<std::byte>(64, std::byte{1}));
  snapshot.tensor("b/c", rota::DType::uint8, {}, 50, std::vector<std::byte>(50, std::byte{2}));
  snapshot.blob("zeros", std::string(2000, '\0'));
  snapshot.blob("text", "text");
  snapshot.rank_blob("rng", "state of a rank");
  const std::string file = save(snapshot);
  return {without_hdf5(file), file};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = rota::test::as_bytes(data, size);
  std::vector<std::byte> file(input.begin(), input.end());
  mend_sizes(file);
  rota::test::seal(file);
  const Outcome read = outcome_of([&] {
    rota::test::read_all(file);
    return true;
  });
  ROTA_FUZZ_EXPECT(read == outcome_of([&] { return rota::test::verify_bytes(file).is_good(); }));
  return 0;
}
