// Files that the ranks of a node hold in memory together: here, one process and its threads.

#include <zstd.h>
#include <barrier>

#include "catalog/files.hpp"
#include "formats/python.hpp"
#include "formats/shared_files.hpp"

namespace rota::test::shared_files_test {

constexpr std::int64_t kRawBytes = 1 << 20;
constexpr int kThreads = 8;

using Memory = std::shared_ptr<const FileMemory>;

std::string packed(const std::string& raw) {
  std::string result(ZSTD_compressBound(raw.size()), '\0');
  result.resize(ZSTD_compress(result.data(), result.size(), raw.data(), raw.size(), 1));
  return result;
}

// All of it is this letter.
bool is_all(const Memory& memory, char letter) {
  return memory->bytes().size() == kRawBytes && std::ranges::all_of(memory->bytes(), [&](std::byte byte) {
           return byte == static_cast<std::byte>(letter);
         });
}

// Four files, of a letter each.
class SharedFilesTest : public Test {
 protected:
  SharedFilesTest() {
    for (const char letter : {'a', 'b', 'c', 'd'}) {
      directory_.write(std::string(1, letter), packed(std::string(kRawBytes, letter)));
    }
  }
  std::shared_ptr<SharedFiles> share(std::int64_t kept_bytes, std::chrono::milliseconds patience = 1min) {
    list_ = files_of(Catalog(directory_.path(), {.shared_memory_limit = kept_bytes}));
    return SharedFiles::make(
        *list_, std::vector<FileEncoding>(4, {.compression = Compression::zstd, .raw_bytes = kRawBytes}),
        patience);
  }

  TemporaryDirectory directory_;
  std::optional<FileList> list_;
};

TEST_F(SharedFilesTest, ThreadsThatWantTheSameFileUnpackItOnce) {
  for (int round = 0; round < 20; ++round) {
    const auto files = share(4 * kRawBytes);
    std::vector<Memory> found(kThreads);
    std::barrier start(kThreads);
    in_threads(kThreads, [&](std::size_t t) {
      start.arrive_and_wait();
      found[t] = files->open(2);
    });
    EXPECT_THAT(found, Each(found[0]));
    EXPECT_TRUE(is_all(found[0], 'c'));
    EXPECT_EQ(files->fetched().files, 1);
    EXPECT_EQ(files->fetched().bytes, kRawBytes);
  }
}

TEST_F(SharedFilesTest, ThoseReadLastAreKept) {
  const auto files = share(2 * kRawBytes);
  std::vector<std::weak_ptr<const FileMemory>> seen;
  for (const std::size_t i : {0U, 1U, 0U, 2U}) seen.emplace_back(files->open(i));
  EXPECT_EQ(seen[0].lock(), seen[2].lock());
  EXPECT_FALSE(seen[0].expired());
  EXPECT_TRUE(seen[1].expired());
  EXPECT_FALSE(seen[3].expired());
  EXPECT_EQ(files->usage().bytes, 2 * kRawBytes);
  EXPECT_EQ(files->usage().peak_bytes, 2 * kRawBytes);
}

TEST_F(SharedFilesTest, WhatIsReadStaysThereForItsReaderAndNobodyWritesToIt) {
  const auto files = share(0);
  const Memory held = files->open(0);
  const std::weak_ptr<const FileMemory> other = files->open(1);
  (void)files->open(2);
  EXPECT_TRUE(other.expired());
  EXPECT_TRUE(is_all(held, 'a'));
  const auto fd = static_cast<int>(held->address().descriptor);
  EXPECT_EQ(::pwrite(fd, "x", 1, 0), -1);
  EXPECT_EQ(::ftruncate(fd, 0), -1);
  EXPECT_EQ(::ftruncate(fd, 2 * kRawBytes), -1);
}

TEST_F(SharedFilesTest, WhatIsHeldIsFetchedAheadAndStaysUntilItIsLetGo) {
  const auto files = share(0);
  auto hold = files->pin({.first = 0, .last = 3}, true);
  for (const std::size_t i : {0U, 1U, 2U}) (void)files->open(i);
  EXPECT_EQ(files->usage().bytes, 3 * kRawBytes);
  (void)files->open(3);
  for (const std::size_t i : {0U, 1U, 2U}) (void)files->open(i);
  EXPECT_EQ(files->fetched().files, 4);
  hold.reset();
  EXPECT_LE(files->usage().bytes, kRawBytes);
}

TEST_F(SharedFilesTest, AllThatHoldersReadIsFetchedWithoutAnybodyReadingAndNoMore) {
  const auto files = share(0);
  const auto held = files->pin({.first = 0, .last = 2}, false);
  const auto read = files->pin({.first = 2, .last = 4}, true);
  while (files->fetched().files < 2) std::this_thread::yield();
  EXPECT_EQ(files->usage().bytes, 2 * kRawBytes);
  (void)files->open(3);
  EXPECT_EQ(files->fetched().files, 2);
}

TEST_F(SharedFilesTest, WhatAllHaveLetGoIsDroppedWhereNothingMayStay) {
  const auto files = share(0);
  auto one = files->pin({.first = 0, .last = 2}, true);
  auto other = files->pin({.first = 1, .last = 2}, true);
  (void)files->open(0);
  std::weak_ptr<const FileMemory> memory = files->open(1);
  one.reset();
  EXPECT_FALSE(memory.expired());
  EXPECT_EQ(files->usage().bytes, kRawBytes);
  other.reset();
  EXPECT_EQ(files->usage().bytes, 0);
}

// All of them get the error, and none waits for ever.
TEST_F(SharedFilesTest, AFileThatCannotBeUnpackedIsAnErrorForAllWhoWantIt) {
  const auto files = share(kRawBytes);
  const auto hold = files->pin({.first = 0, .last = 4}, true);
  const Memory held = files->open(0);
  directory_.write("b", std::string(static_cast<std::size_t>(list_->bytes(1)), 'x'));
  const auto others = share(kRawBytes);
  std::atomic<int> failed = 0;
  in_threads(kThreads, [&](std::size_t) { failed += error_of([&] { (void)others->open(1); }) ? 1 : 0; });
  EXPECT_EQ(failed, kThreads);
  EXPECT_EQ(others->usage().bytes, 0);
  directory_.write("b", packed(std::string(kRawBytes, 'b')));
  EXPECT_TRUE(is_all(others->open(1), 'b'));
}

// A quarter of a gigabyte of zeros, where a megabyte was to come.
TEST_F(SharedFilesTest, AFileThatUnpacksToMoreThanWasToComeTakesNoMoreMemoryThanThat) {
  directory_.write("a", packed(std::string(std::size_t{256} << 20, '\0')));
  const auto files = share(kRawBytes);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit least{.rlim_cur = kRawBytes, .rlim_max = before.rlim_max};  // files in memory are files
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &least), 0);
  const auto error = error_of([&] { (void)files->open(0); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(error, is_error(corrupt, {"unpacks to more than the 1048576 bytes"}));
  EXPECT_EQ(files->usage().bytes, 0);
}

TEST_F(SharedFilesTest, NothingIsLeftOfAProcessThatIsKilled) {
  const auto entries = [] {
    std::set<std::string> names;
    for (const char* directory : {"/dev/shm", "/tmp"}) {
      for (const auto& entry : fs::directory_iterator(directory)) {
        const std::string& path = entry.path().native();
        const bool is_of_a_test = path.find("rota-test-") != std::string::npos;  // others may run meanwhile
        if (path.find("rota") != std::string::npos && !is_of_a_test) names.insert(path);
      }
    }
    return names;
  };
  const auto before = entries();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto files = share(kRawBytes);
    const auto hold = files->pin({.first = 0, .last = 4}, true);
    (void)files->open(2);
    ::kill(::getpid(), SIGKILL);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(entries(), before);
}

// It has some open and makes another: all are there at once for whoever wants them.
TEST_F(SharedFilesTest, FilesOfAProcessThatIsKilledAtTheirMakingAreMadeByOthers) {
  std::int64_t made = 0;
  for (int round = 0; round < 100; ++round) {
    const auto files = share(2 * kRawBytes);
    const pid_t maker = ::fork();
    ASSERT_GE(maker, 0);
    if (maker == 0) {
      for (std::size_t i = 0;; ++i) (void)files->open(i % 4);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1 + round % 10));
    ::kill(maker, SIGKILL);
    const auto start = std::chrono::steady_clock::now();
    for (const std::size_t i : {0U, 1U, 2U, 3U}) EXPECT_TRUE(is_all(files->open(i), "abcd"[i]));
    EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
    ASSERT_EQ(::waitpid(maker, nullptr, 0), maker);
    made += files->fetched().files;
  }
  EXPECT_GT(made, 100);
}

TEST_F(SharedFilesTest, ThreadsThatHoldAndReadAndLetGoSeeWhatTheFilesHold) {
  const auto files = share(kRawBytes);
  in_threads(kThreads, [&](std::size_t seed) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < 50; ++i) {
      const std::size_t first = random() % 4;
      const auto hold =
          files->pin({.first = first, .last = first + 1 + random() % (4 - first)}, random() % 2 == 0);
      const std::size_t file = random() % 4;
      const Memory memory = files->open(file);
      EXPECT_EQ(memory->bytes().size(), kRawBytes);
      EXPECT_EQ(std::to_integer<char>(memory->bytes()[random() % kRawBytes]), "abcd"[file]);
    }
  });
  // One that was wanted a moment ago may still be coming.
  const auto limit = std::chrono::steady_clock::now() + 30s;
  while (files->usage().bytes > kRawBytes && std::chrono::steady_clock::now() < limit)
    std::this_thread::yield();
  EXPECT_LE(files->usage().bytes, kRawBytes);
}

}  // namespace rota::test::shared_files_test
