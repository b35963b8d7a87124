// Row digests do not depend on the pieces in which a file is read, nor on who reads which.

#include "row_sums.hpp"
#include "checkpoint_fixture.hpp"
#include "digest.hpp"
#include "extents.hpp"

namespace rota::test::row_sums_test {

using checkpoint::Contents;
using checkpoint::kPageBytes;
using checkpoint::RowSums;

constexpr std::size_t kFileBytes = 60'000;

// Tensors of long and short rows, and none, with and without gaps between them.
Contents make_contents() {
  Contents contents;
  const auto add = [&](std::uint64_t offset, std::int64_t rows, std::int64_t row_bytes) {
    contents.tensors.emplace_back().shape = {rows, row_bytes};
    contents.places.push_back({.offset = offset,
                               .row_bytes = row_bytes,
                               .bytes = static_cast<std::uint64_t>(rows * row_bytes),
                               .row_digest = 0});
  };
  add(40'000, 3, 5'000);
  add(0, 0, 8);
  add(5'000, 1'000, 12);
  add(17'000, 7, 1);
  add(20'000, 1, 19'999);
  add(0, 5, 0);
  return contents;
}

class RowSumsOfAFile : public CheckpointTest {
 protected:
  RowSumsOfAFile() {
    write_file(path_ / "file", {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()});
    file_ = internal::File(internal::posix_file_system(), path_ / "file", O_RDONLY);
  }

  std::vector<std::uint64_t> expected() const {
    std::vector<std::uint64_t> sums;
    for (std::size_t t = 0; t < contents_.tensors.size(); ++t) {
      const auto& place = contents_.places[t];
      const auto rows = std::span(bytes_).subspan(
          place.offset, static_cast<std::size_t>(contents_.tensors[t].rows() * place.row_bytes));
      sums.push_back(checkpoint::row_digest(rows, 0, place.row_bytes));
    }
    return sums;
  }

  // What one reader of [begin, end) adds, in pieces of up to `most` bytes.
  std::vector<std::uint64_t> sums_of(std::size_t begin, std::size_t end, std::size_t most,
                                     std::mt19937& random) {
    RowSums sums(contents_);
    while (begin < end) {
      const std::size_t count = std::min(end - begin, 1 + random() % most);
      sums.add(begin, std::span(bytes_).subspan(begin, count));
      begin += count;
    }
    return sums.finish(file_);
  }

  Contents contents_ = make_contents();
  Bytes bytes_ = make_rows(0, 1, kFileBytes);
  internal::File file_;
};

TEST_F(RowSumsOfAFile, AreThoseOfItsRowsForAnyPiecesAndAnyReaders) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const std::size_t most = std::size_t{1} << (random() % 16);
    std::vector<std::uint64_t> sums(contents_.tensors.size());
    for (std::size_t begin = kPageBytes; begin < kFileBytes;) {
      const std::size_t end = std::min(kFileBytes, begin + 1 + random() % 30'000);
      const auto part = sums_of(begin, end, most, random);
      for (std::size_t t = 0; t < sums.size(); ++t) sums[t] += part[t];
      begin = end;
    }
    ASSERT_EQ(sums, expected()) << "round " << round;
  }
}

TEST(RowDigest, TellsSwappedRowsApart) {
  const auto rows = make_rows(0, 10, 24);
  auto swapped = rows;
  std::swap_ranges(swapped.begin(), swapped.begin() + 24, swapped.begin() + 48);
  EXPECT_NE(checkpoint::row_digest(swapped, 0, 24), checkpoint::row_digest(rows, 0, 24));
}

}  // namespace rota::test::row_sums_test
