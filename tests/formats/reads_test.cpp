// What touches on disk is read in one call; whatever is read together, the bytes are the same.

#include "files/reads.hpp"
#include "catalog/files.hpp"
#include "formats/python.hpp"
#include "system_calls.hpp"

namespace rota::test::reads_test {

std::string random_bytes(std::size_t size, std::mt19937_64& random) {
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

/// A file, and stretches of it that are read together.
class MergedReads : public Test {
 protected:
  struct Stretch {
    std::uint64_t offset;
    std::size_t bytes;
  };

  // In memory of their own, or side by side. The number of calls.
  std::int64_t read(std::vector<Stretch> stretches, bool side_by_side = false) {
    std::ranges::stable_sort(stretches, {}, &Stretch::offset);
    std::size_t sum = 0;
    for (const Stretch& stretch : stretches) sum += stretch.bytes + (side_by_side ? 0 : 1);
    std::string memory(sum, '?');
    const DatasetFile file = files_.open(std::size_t{0});
    std::vector<WantedBytes> wanted;
    std::size_t at = 0;
    for (const Stretch& stretch : stretches) {
      const std::span to(memory.data() + at, stretch.bytes);
      wanted.push_back({&file, stretch.offset, std::as_writable_bytes(to)});
      at += stretch.bytes + (side_by_side ? 0 : 1);
    }
    const std::int64_t calls = read_calls_of([&] { read_at_once(wanted); });
    for (const WantedBytes& one : wanted) {
      EXPECT_TRUE(
          std::ranges::equal(one.to, std::as_bytes(std::span(contents_)).subspan(one.offset, one.to.size())))
          << one.to.size() << " bytes from " << one.offset;
    }
    return calls;
  }

  std::mt19937_64 random_{1};
  TemporaryDirectory directory_;
  std::string contents_ = random_bytes(300'000, random_);
  fs::path path_ = directory_.write("data", contents_);
  FileList files_ = files_of(Catalog(path_));
};

TEST_F(MergedReads, GiveTheSameBytesWhateverTouchesOrOverlaps) {
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    const std::array<std::uint64_t, 4> spreads = {50, 3000, 60'000, 290'000};
    const std::uint64_t spread = spreads[random_() % spreads.size()];
    std::vector<Stretch> stretches(1 + random_() % 200);
    for (Stretch& stretch : stretches) stretch = {random_() % spread, random_() % 3 * (random_() % 4000)};
    for (std::size_t i = 1; i < stretches.size(); i += 5) stretches[i] = stretches[i - 1];
    read(stretches, round % 2 == 0);
  }
}

TEST_F(MergedReads, TakeOneCallForWhatTouchesOrIsWantedTwice) {
  std::vector<Stretch> stretches;
  for (std::uint64_t i = 0; i < 100; ++i) stretches.push_back({i * 1000, 1000});
  std::shuffle(stretches.begin(), stretches.end(), random_);
  EXPECT_EQ(read(stretches), 1);
  stretches.clear();
  for (std::uint64_t i = 0; i < 50; ++i)
    stretches.push_back({i * 1000, 488});  // as between the heads of a tar file
  EXPECT_EQ(read(stretches), 1);
  EXPECT_EQ(read(std::vector<Stretch>(40, {5000, 3000})), 1);
}

TEST_F(MergedReads, DoNotReadMuchThatNobodyWants) {
  EXPECT_EQ(read({{0, 100}, {100 + kMostGap, 100}}), 1);
  EXPECT_EQ(read({{0, 100}, {101 + kMostGap, 100}}), 2);
}

TEST_F(MergedReads, OfAFileCutShortNameTheByte) {
  fs::resize_file(path_, 10'500);
  EXPECT_ERROR(read({{9000, 1000}, {10'000, 1000}, {11'000, 1000}}), corrupt,
               {"data", "byte 10500", "500 more bytes"});
}

/// Lines of text in several files, through loaders.
class MergedSource : public Test {
 protected:
  MergedSource() {
    for (const char* name : {"a.txt", "b.txt", "c.txt"}) {
      std::string text;
      for (int i = 0; i < 384; ++i) text += std::string(random_() % 2000, 'a') + '\n';
      directory_.write(name, text);
    }
  }
  // Calls per batch of 64.
  std::int64_t calls(Shuffle shuffle, std::int64_t shards) const {
    Loader loader(open(directory_.path(), "lines"), {.global_batch_size = 64,
                                                     .shards = shards,
                                                     .shuffle = shuffle,
                                                     .block = {.samples = 64, .blocks = 1},
                                                     .tail = Tail::drop,
                                                     .workers = 0});
    std::int64_t batches = 0;
    const std::int64_t calls = read_calls_of([&] {
      while (loader.next()) ++batches;
    });
    return (calls + batches - 1) / batches;
  }

  std::mt19937_64 random_{2};
  TemporaryDirectory directory_;
};

TEST_F(MergedSource, OfNeighboursMakesFewCalls) {
  EXPECT_LE(calls(Shuffle::none, 1), 2);
  EXPECT_LE(calls(Shuffle::none, 8), 8 + 2);
  EXPECT_LE(calls(Shuffle::block, 1), 2);
  EXPECT_LE(calls(Shuffle::global, 1), 64) << "where they lie apart, no more than one for each";
}

}  // namespace rota::test::reads_test
