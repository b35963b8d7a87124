// However the bytes of files are read, and whatever fails meanwhile, the samples are the same.

#include "formats/file_memory.hpp"
#include "formats/python.hpp"
#include "formats/read_seam.hpp"
#include "resident_memory.hpp"

namespace rota::test::access_test {

constexpr Access kAccesses[] = {Access::cached, Access::direct, Access::mapped, Access::automatic};

/// Lines of text in several files, on a disk.
class AccessTest : public Test {
 protected:
  static constexpr int kFiles = 5;
  static constexpr int kLines = 300;  // of a file

  AccessTest() {
    for (int file = 0; file < kFiles; ++file) {
      std::string text;
      for (int i = 0; i < kLines; ++i) {
        // A few are longer than what is read past the page cache at a time.
        const std::size_t bytes = i % 97 == 5 ? 300'000 + random_() % 300'000 : random_() % 20'000;
        lines_.emplace_back(bytes, static_cast<char>('a' + (file + i) % 26));
        text += lines_.back() + '\n';
      }
      paths_.push_back(directory_.write(fmt::format("{}.txt", file), text));
    }
    directory_.write("5.txt", "");
    ::sync();
  }
  ~AccessTest() override {
    disarm_reads();
    pretend_memory(0);
  }

  std::shared_ptr<const Source> open(Access access, int most_open = 256) const {
    return rota::open(Catalog(directory_.path(), {.max_open_files = most_open, .access = access}), "lines");
  }
  // From the page cache, where there is a disk below.
  void evict() const {
    for (const fs::path& path : paths_) {
      const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
      ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
      ::close(fd);
    }
  }
  const std::string& line(SampleId id) const { return lines_[static_cast<std::size_t>(id.value)]; }
  void expect_samples(const Source& source, const Ids& wanted) const {
    const Samples samples(source, wanted);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_EQ(samples.sample(0, i), line(wanted[i])) << wanted[i].value;
    }
  }
  void expect_lines(const Batch& batch) const {
    for (std::int64_t i = 0; i < batch.size(); ++i) {
      EXPECT_EQ(text_of(batch.bytes(0, i)), line(batch.ids()[static_cast<std::size_t>(i)]));
    }
  }
  // Some of which no two lie so near to each other that one call reads both.
  Ids scattered(std::size_t count) {
    Ids all;
    for (std::int64_t id = 0; id + 1 < std::ssize(lines_); id += 2) {
      if (line({id + 1}).size() > 9000 && line({id}).size() < 20'000) all.push_back({id});
    }
    std::shuffle(all.begin(), all.end(), random_);
    all.resize(count);
    return all;
  }
  static std::vector<ReadCall> calls_of(const Source& source, const Ids& wanted) {
    disarm_reads();
    const Samples samples(source, wanted, false);
    return calls_made();
  }
  void drop_loaders(std::uint64_t seeds);

  std::mt19937_64 random_{3};
  std::vector<std::string> lines_;
  TemporaryDirectory directory_;
  std::vector<fs::path> paths_;
};

using AccessCampaign = AccessTest;

TEST_F(AccessTest, OfAnyKindGivesTheSameSamplesCachedOrNot) {
  for (const Access access : kAccesses) {
    SCOPED_TRACE(to_string(access));
    const auto source = open(access, access == Access::mapped ? 256 : 2);
    for (const std::size_t count : {1U, 2U, 64U, 65U, 300U, 2000U}) {
      for (int round = 0; round < 4; ++round) {
        if (round % 2 == 0) evict();
        expect_samples(*source, random_ids(*source, count, random_));
      }
    }
    expect_samples(*source, all_ids(*source));
  }
}

TEST_F(AccessTest, ByManyThreadsGivesTheSameSamples) {
  for (const Access access : kAccesses) {
    const auto source = open(access, access == Access::mapped ? 256 : 2);
    in_threads(4, [&](std::size_t seed) {
      std::mt19937_64 random(seed);
      for (int round = 0; round < 10; ++round) {
        if (round == 5) evict();
        expect_samples(*source, random_ids(*source, 100, random));
      }
    });
  }
}

// ---- what is under way together ----

TEST_F(AccessTest, HasAllThatIsNotCachedUnderWayBeforeItWaits) {
  const auto source = open(Access::cached);
  const Ids wanted = scattered(200);
  std::vector<ReadCall> calls;
  std::int64_t hints = 0;
  for (int tries = 0; tries < 10 && hints < std::ssize(wanted); ++tries) {
    evict();  // of which a busy machine may leave a page
    calls = calls_of(*source, wanted);
    hints = std::ranges::count(calls, ReadCall::hint);
  }
  if (hints == 0) GTEST_SKIP() << "nothing can be evicted from this file system";
  EXPECT_EQ(hints, std::ssize(wanted));
  EXPECT_EQ(std::count(calls.begin(), calls.end(), ReadCall::look), 4) << "then none is likely to be cached";
  const auto first_wait = std::find(calls.begin(), calls.end(), ReadCall::wait);
  EXPECT_EQ(std::count(first_wait, calls.end(), ReadCall::hint), 0);
}

TEST_F(AccessTest, ToWhatIsCachedTakesOneCallEachAndToAMappingNone) {
  const auto source = open(Access::cached);
  const Ids wanted = scattered(200);
  expect_samples(*source, wanted);
  const auto calls = calls_of(*source, wanted);
  EXPECT_EQ(calls.size(), wanted.size());
  EXPECT_THAT(calls, Not(Contains(ReadCall::hint)));
  EXPECT_THAT(calls_of(*open(Access::mapped), wanted), IsEmpty());
}

TEST_F(AccessTest, PastTheCacheHasManyReadsUnderWayBeforeItWaits) {
  const auto source = open(Access::direct);
  const Ids wanted = scattered(60);
  const auto calls = calls_of(*source, wanted);
  const auto first = std::find(calls.begin(), calls.end(), ReadCall::collect);
  if (first == calls.end()) GTEST_SKIP() << "this file system has no direct reads";
  EXPECT_EQ(std::count(first, calls.end(), ReadCall::submit), 0);
  EXPECT_EQ(std::count(calls.begin(), calls.end(), ReadCall::wait), 0);
}

TEST_F(AccessTest, HasWhatIsToBeUnpackedComeMeanwhile) {
  const auto path = directory_.write("6.bin", std::string(20 << 20, 'x'));
  const DatasetFile file(path.string(), 0, open_for_reading(AT_FDCWD, path.c_str()));
  const auto hints_of = [&](std::size_t most) {
    disarm_reads();
    std::size_t bytes = 0;
    decompress(file, Compression::none,
               [&](std::span<const std::byte> piece) { return (bytes += piece.size()) < most; });
    return std::count(calls_made().begin(), calls_made().end(), ReadCall::hint);
  };
  EXPECT_GE(hints_of(30 << 20), 20 * 8) << "each of 128 KiB";
  EXPECT_EQ(hints_of(100), 0) << "of a head";
}

TEST_F(AccessTest, OfItsOwnChoiceGoesPastTheCacheForWhatIsLargeAndNotInThere) {
  const Catalog catalog(directory_.path(), {.access = Access::automatic});
  (void)rota::open(catalog, "lines");  // it keeps what was found in the files
  const auto goes_past = [&](Access access) {
    const auto source = access == Access::automatic ? rota::open(catalog, "lines") : open(access);
    disarm_reads();
    expect_samples(*source, scattered(20));
    return std::count(calls_made().begin(), calls_made().end(), ReadCall::collect) > 0;
  };
  if (!goes_past(Access::direct)) GTEST_SKIP() << "this file system has no direct reads";
  // A busy machine may leave pages that are to go, and take some that are to stay.
  const auto comes_to = [&](bool past, auto&& make_ready) {
    for (int tries = 0; tries < 10; ++tries) {
      make_ready();
      if (goes_past(Access::automatic) == past) return true;
    }
    return false;
  };
  evict();
  EXPECT_FALSE(goes_past(Access::automatic));
  pretend_memory(1 << 20);
  EXPECT_TRUE(comes_to(true, [&] { evict(); }));
  const auto cached = open(Access::cached);
  EXPECT_TRUE(comes_to(false, [&] { expect_samples(*cached, all_ids(*cached)); }));
}

// ---- what fails ----

TEST_F(AccessTest, EveryCallMayFailInTurnAndTheNextTryIsRight) {
  for (const Access access : {Access::cached, Access::direct}) {
    const auto source = open(access);
    const Ids wanted = scattered(24);
    evict();
    const std::vector<ReadCall> all = calls_of(*source, wanted);
    for (const ReadCall call :
         {ReadCall::look, ReadCall::hint, ReadCall::wait, ReadCall::submit, ReadCall::collect}) {
      for (std::int64_t number = 0; number < std::count(all.begin(), all.end(), call); ++number) {
        for (const ReadFault fault :
             {ReadFault::fails, ReadFault::is_short, ReadFault::interrupted, ReadFault::refused}) {
          SCOPED_TRACE(fmt::format("{}, call {} {}, fault {}", to_string(access), static_cast<int>(call),
                                   number, static_cast<int>(fault)));
          evict();
          arm_reads(call, number, fault);
          const auto error = error_of([&] { expect_samples(*source, wanted); });
          disarm_reads();
          if (!error) continue;
          EXPECT_THAT(error, is_error(io, {directory_.path().string()}));
          EXPECT_EQ(call, ReadCall::wait) << "all else is tried otherwise";
          expect_samples(*source, wanted);
        }
      }
    }
  }
}

// Loaders are sought and dropped with reads under way that fail.
void AccessTest::drop_loaders(std::uint64_t seeds) {
  std::vector<std::shared_ptr<const Source>> sources;
  for (const Access access : {Access::cached, Access::direct}) {
    for (const int most_open : {2, 256}) sources.push_back(open(access, most_open));
  }
  std::uint64_t right = 0;
  std::uint64_t failed = 0;
  for_seeds(seeds, [&](std::uint64_t seed, std::mt19937_64& random) {
    const auto below = [&](std::uint64_t end) { return static_cast<std::int64_t>(random() % end); };
    if (seed % 4 == 0) evict();
    {
      Loader loader(sources[seed % sources.size()],
                    {.global_batch_size = 1 + below(60),
                     .seed = seed,
                     .epochs = kEndless,
                     .workers = static_cast<int>(below(4)),
                     .read_ahead_batches = 1 + below(4),
                     .bad_samples = {.io_retries = static_cast<int>(below(4)), .retry_wait = 0ms}});
      constexpr std::array<std::uint64_t, 3> kOneIn{5, 30, 200};
      fail_reads_at_random(seed, kOneIn[seed % kOneIn.size()]);
      const auto error = error_of([&] {
        for (std::int64_t steps = below(5); steps > 0; --steps) {
          if (below(3) == 0) loader.seek({.epoch = below(3), .step = below(20)});
          expect_lines(*loader.next());
          ++right;
        }
      });
      if (error) {
        EXPECT_THAT(error, is_error(io, {directory_.path().string()}));
        ++failed;
      }
    }
    fail_reads_at_random(0, 0);
  });
  EXPECT_GT(right, seeds / 2);
  EXPECT_GT(failed, seeds / 20);
  sources.clear();
  EXPECT_EQ(descriptors_in(directory_.path()), 0);
}
TEST_F(AccessTest, LoadersAreSoughtAndDroppedWithReadsUnderWayThatFail) { drop_loaders(200); }
TEST_F(AccessCampaign, LoadersAreSoughtAndDroppedWithReadsUnderWayThatFail) { drop_loaders(1000); }

TEST_F(AccessTest, WithoutAsynchronousReadsComesThroughThePageCache) {
  const auto source = open(Access::direct);
  arm_reads(ReadCall::set_up, 0, ReadFault::refused);
  expect_samples(*source, random_ids(*source, 300, random_));
}

TEST_F(AccessTest, OfAFileCutShortNamesTheByte) {
  const std::string whole = read_file(paths_[0]);
  for (const Access access : {Access::cached, Access::direct}) {
    const auto source = open(access);
    fs::resize_file(paths_[0], 100);
    EXPECT_THAT(reading(*source, {10, 400, 11}),
                is_error(corrupt, {paths_[0].string(), "the file ends here"}));
    write_file(paths_[0], whole);
  }
}

TEST_F(AccessTest, PastTheCacheWorksInAForkedChild) {
  const auto source = open(Access::direct);
  expect_samples(*source, ids({1, 500, 1000}));
  const pid_t child = ::fork();
  if (child == 0) {
    const Samples samples(*source, ids({2, 600, 1100}), false);
    ::_exit(samples.sample(0, 1) == lines_[600] ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  expect_samples(*source, ids({3, 700, 1200}));
}

TEST_F(AccessTest, HoldsAsManyDescriptorsAsItSays) {
  for (const auto& [access, each] :
       {std::pair{Access::cached, 1}, {Access::direct, 2}, {Access::mapped, 0}}) {
    auto source = open(access);
    EXPECT_LE(descriptors_in(directory_.path()), (kFiles + 1) * each + 1)
        << to_string(access);  // the directory, and an empty file
    evict();
    expect_samples(*source, random_ids(*source, 200, random_));
    source.reset();
    EXPECT_EQ(descriptors_in(directory_.path()), 0) << to_string(access);
  }
}

TEST_F(AccessTest, TakesNoMoreMemoryThanItSaysWithHundredsOfReadsUnderWay) {
  if (kIsSanitized) GTEST_SKIP() << "the sanitizer takes memory of its own";
  constexpr std::int64_t kReadAhead = 16 << 20;
  constexpr std::int64_t kWorkers = 2;
  for (const auto& [access, of_worker] :
       {std::pair{Access::cached, std::int64_t{1} << 20}, {Access::direct, std::int64_t{17} << 20}}) {
    const auto source = open(access);
    const std::int64_t before = resident("VmRSS");
    forget_peak();
    std::int64_t batch_bytes = 0;  // of the largest
    {
      Loader loader(source, {.global_batch_size = 300,
                             .epochs = kEndless,
                             .workers = static_cast<int>(kWorkers),
                             .read_ahead_batches = 64,
                             .read_ahead_bytes = kReadAhead});
      for (int step = 0; step < 40; ++step) {
        if (step % 10 == 0) evict();
        const auto batch = loader.next();
        expect_lines(*batch);
        batch_bytes = std::max(batch_bytes, std::ssize(batch->tensor(0).bytes));
      }
    }
    const std::int64_t most =
        (kReadAhead + 5 * batch_bytes) * 5 / 4 + kWorkers * of_worker + (std::int64_t{4} << 20);
    EXPECT_LE(resident("VmHWM") - before, most >> 10) << to_string(access);
  }
}

}  // namespace rota::test::access_test
