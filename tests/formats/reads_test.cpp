// What touches on disk is read in one call; whatever is read together, the bytes are the same.

#include "catalog/files.hpp"
#include "source/reading.hpp"
#include "storage/reads.hpp"
#include "system_calls.hpp"
#include "test.hpp"

namespace rota::test::reads_test {

std::string random_bytes(std::size_t size, std::mt19937_64& random) {
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

/// A file, and stretches of it that are read together.
class MergedReads : public testing::Test {
 protected:
  struct Stretch {
    std::uint64_t offset;
    std::size_t bytes;
  };

  // In memory of their own, or side by side.
  std::vector<std::string> read(std::vector<Stretch> stretches, bool side_by_side = false) {
    std::ranges::stable_sort(stretches, {}, &Stretch::offset);
    std::vector<std::string> memory;
    std::size_t sum = 0;
    for (const Stretch& stretch : stretches) {
      memory.emplace_back(stretch.bytes, '?');
      sum += stretch.bytes;
    }
    std::string together(sum, '?');
    const File file = files_.open(std::size_t{0});
    std::vector<WantedBytes> wanted;
    std::size_t at = 0;
    for (std::size_t i = 0; i < stretches.size(); ++i) {
      char* to = side_by_side ? together.data() + at : memory[i].data();
      wanted.push_back(
          {&file, stretches[i].offset, std::as_writable_bytes(std::span(to, stretches[i].bytes))});
      at += stretches[i].bytes;
    }
    calls_ = read_calls_of([&] { read_at_once(wanted); });
    at = 0;
    for (std::size_t i = 0; side_by_side && i < memory.size(); at += memory[i++].size()) {
      memory[i] = together.substr(at, memory[i].size());
    }
    for (std::size_t i = 0; i < memory.size(); ++i) {
      EXPECT_EQ(memory[i], contents_.substr(stretches[i].offset, stretches[i].bytes)) << "stretch " << i;
    }
    return memory;
  }

  std::mt19937_64 random_{1};
  TemporaryDirectory directory_;
  std::string contents_ = random_bytes(300'000, random_);
  fs::path path_ = directory_.write("data", contents_);
  FileList files_ = FileList::list(std::make_shared<const OpenContext>(mpi::Communicator(), CatalogOptions{}),
                                   ChangeDetection::by_size, path_.string());
  std::int64_t calls_ = 0;
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

TEST_F(MergedReads, TakeOneCallForWhatTouches) {
  std::vector<Stretch> stretches;
  for (std::uint64_t i = 0; i < 100; ++i) stretches.push_back({i * 1000, 1000});
  std::shuffle(stretches.begin(), stretches.end(), random_);
  read(stretches);
  EXPECT_EQ(calls_, 1);
  stretches.resize(50);
  for (std::uint64_t i = 0; i < 50; ++i)
    stretches[i] = {i * 1000, 488};  // as between the heads of a tar file
  read(stretches);
  EXPECT_EQ(calls_, 1);
}

TEST_F(MergedReads, ReadWhatIsWantedTwiceOnce) {
  read(std::vector<Stretch>(40, {5000, 3000}));
  EXPECT_EQ(calls_, 1);
}

TEST_F(MergedReads, DoNotReadMuchThatNobodyWants) {
  read({{0, 100}, {100 + kMostGap, 100}});
  EXPECT_EQ(calls_, 1);
  read({{0, 100}, {101 + kMostGap, 100}});
  EXPECT_EQ(calls_, 2);
}

TEST_F(MergedReads, OfAFileCutShortNameTheByte) {
  fs::resize_file(path_, 10'500);
  EXPECT_THAT(error_of([&] {
                read({{9000, 1000}, {10'000, 1000}, {11'000, 1000}});
              }),
              is_error(ErrorCode::corrupt, {"data", "byte 10500", "500 more bytes"}));
}

TEST_F(MergedReads, OfWhatIsInMemoryTakeNoCalls) {
  const std::shared_ptr<const std::byte> memory(std::shared_ptr<const void>(),
                                                std::as_bytes(std::span(contents_)).data());
  const File file("data", 0, memory, contents_.size(), false);
  std::string first(1000, '?');
  std::string second(1000, '?');
  const std::array<WantedBytes, 2> wanted = {{{&file, 0, std::as_writable_bytes(std::span(first))},
                                              {&file, 1000, std::as_writable_bytes(std::span(second))}}};
  EXPECT_EQ(read_calls_of([&] { read_at_once(wanted); }), 0);
  EXPECT_EQ(first + second, contents_.substr(0, 2000));
}

// ---- through sources and loaders ----

/// Lines of text in several files.
class MergedSource : public testing::Test {
 protected:
  explicit MergedSource(std::size_t most_bytes = 2000) {
    for (const char* name : {"a.txt", "b.txt", "c.txt"}) {
      std::string text;
      for (int i = 0; i < 384; ++i) {
        lines_.emplace_back(random_() % most_bytes, static_cast<char>('a' + i % 26));
        text += lines_.back() + '\n';
      }
      directory_.write(name, text);
    }
  }

  // Calls per batch of 64.
  std::int64_t calls(Shuffle shuffle, std::int64_t shards) const {
    Loader loader(open_lines(directory_.path()), {.global_batch_size = 64,
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
  std::vector<std::string> lines_;
  TemporaryDirectory directory_;
};

TEST_F(MergedSource, GivesEachSampleItsOwnBytes) {
  const auto source = open_lines(directory_.path());
  for (const std::size_t count : {1U, 7U, 500U, 3000U}) {
    const Ids wanted = random_ids(*source, count, random_);
    const Samples samples(*source, wanted);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_EQ(samples.sample(0, i), lines_[static_cast<std::size_t>(wanted[i].value)]) << i;
    }
  }
}

TEST_F(MergedSource, OfNeighboursMakesFewCalls) {
  EXPECT_LE(calls(Shuffle::none, 1), 2);
  EXPECT_LE(calls(Shuffle::none, 8), 8 + 2);
  EXPECT_LE(calls(Shuffle::block, 1), 2);
}

TEST_F(MergedSource, OfSamplesFarApartMakesNoMoreThanOneCallForEach) {
  EXPECT_LE(calls(Shuffle::global, 1), 64);
}

TEST_F(MergedSource, NamesTheRecordThatIsDamaged) {
  const auto source = open_lines(directory_.path());
  fs::resize_file(directory_ / "b.txt", 1000);
  Ids wanted = all_ids(*source);
  std::shuffle(wanted.begin(), wanted.end(), random_);
  EXPECT_THAT(error_of([&] { Samples(*source, wanted); }),
              is_error(ErrorCode::corrupt, {"b.txt", "byte 1000"}));
}

}  // namespace rota::test::reads_test
