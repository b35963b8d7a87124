// How many descriptors the files of a dataset take.

#include <barrier>

#include "formats/open_files.hpp"
#include "formats/python.hpp"

namespace rota::test::open_files_test {

constexpr int kFiles = 40;

// Files of a line each, which says which they are.
class OpenFilesTest : public Test {
 protected:
  OpenFilesTest() {
    for (int i = 0; i < kFiles; ++i)
      directory_.write(fmt::format("{:03}.txt", i), fmt::format("file {}\n", i));
  }
  FileList list(int most) const { return files_of(Catalog(directory_.path(), {.max_open_files = most})); }
  std::int64_t descriptors() const { return descriptors_in(directory_.path()); }

  TemporaryDirectory directory_;
};

TEST_F(OpenFilesTest, OfFewFilesAllAreKeptOpenAndOfManyThoseReadLast) {
  {
    const OpenFiles files(list(kFiles));
    EXPECT_EQ(descriptors(), kFiles);
    for (std::size_t i = 0; i < kFiles; ++i) (void)files.open(i);
    EXPECT_EQ(descriptors(), kFiles);
  }
  for (const int most : {1, 2, 7, kFiles - 1}) {
    const OpenFiles files(list(most));
    EXPECT_EQ(descriptors(), 0);
    for (int i = 0; i < 3 * kFiles; ++i) {
      (void)files.open(static_cast<std::size_t>(i * 7 % kFiles));
      EXPECT_EQ(descriptors(), std::min(i + 1, most));
    }
    const int kept = files.open(5)->descriptor();
    for (int i = 1; i < most; ++i) (void)files.open(static_cast<std::size_t>((5 + i) % kFiles));
    EXPECT_EQ(files.open(5)->descriptor(), kept);
  }
}

TEST_F(OpenFilesTest, WhatIsBeingReadIsOpenedOnce) {
  const OpenFiles files(list(1));
  const auto held = files.open(3);
  for (std::size_t i = 10; i < 20; ++i) (void)files.open(i);
  EXPECT_EQ(descriptors(), 2);
  EXPECT_EQ(files.open(3), held);
  EXPECT_EQ(descriptors(), 1);
}

TEST_F(OpenFilesTest, ThreadsThatWantAFileTogetherShareADescriptor) {
  constexpr std::size_t kThreads = 8;
  const OpenFiles files(list(2));
  for (std::size_t file = 0; file < kFiles; ++file) {
    std::vector<int> found(kThreads);
    std::barrier start(kThreads);
    std::barrier end(kThreads, [&]() noexcept { EXPECT_LE(descriptors(), 2); });
    in_threads(kThreads, [&](std::size_t t) {
      start.arrive_and_wait();
      const auto held = files.open(file);
      found[t] = held->descriptor();
      end.arrive_and_wait();
    });
    EXPECT_THAT(found, Each(found[0]));
  }
}

TEST_F(OpenFilesTest, AFileThatCannotBeOpenedCanBeLater) {
  const OpenFiles files(list(2));
  fs::rename(directory_ / "007.txt", directory_ / "gone");
  for (int i = 0; i < 3; ++i) EXPECT_ERROR(files.open(7), not_found, {"007.txt"});
  fs::rename(directory_ / "gone", directory_ / "007.txt");
  EXPECT_FALSE(error_of([&] { (void)files.open(7); }));
}

TEST_F(OpenFilesTest, NoFilesAtAllAndLessAreRefused) {
  for (const int most : {0, -1}) {
    EXPECT_ERROR(list(most), invalid_argument, {fmt::format("max_open_files is {}", most)});
  }
  EXPECT_ERROR(Catalog(directory_.path(), {.shared_memory_limit = -1}), invalid_argument,
               {"shared_memory_limit is -1"});
}

}  // namespace rota::test::open_files_test
