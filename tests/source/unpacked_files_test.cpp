#include "source/unpacked_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zstd.h>

#include <atomic>
#include <barrier>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "catalog/files.hpp"
#include "source/reading.hpp"
#include "temporary_directory.hpp"

namespace rota::test {
namespace {

constexpr std::size_t kRawBytes = 1 << 20;
constexpr int kThreads = 8;

std::string packed(const std::string& raw) {
  std::string result(ZSTD_compressBound(raw.size()), '\0');
  result.resize(ZSTD_compress(result.data(), result.size(), raw.data(), raw.size(), 1));
  return result;
}

// Four files, of a letter each.
class UnpackedFilesTest : public testing::Test {
 protected:
  UnpackedFilesTest() {
    for (const char letter : {'a', 'b', 'c', 'd'}) {
      directory_.write(std::string(1, letter), packed(std::string(kRawBytes, letter)));
    }
    list_ = files_of(Catalog(directory_.path()));
    for (std::size_t i = 0; i < 4; ++i) opened_.push_back(list_->open(i));
  }
  Unpacked open(UnpackedFiles& files, std::size_t i) {
    return files.open({.files = *list_, .index = i, .fd = opened_[i].get()}, kRawBytes);
  }
  static std::string contents(const Unpacked& memory) {
    std::string bytes(kRawBytes + 1, '\0');
    const auto got = read_at(memory->get(), std::as_writable_bytes(std::span(bytes)), 0);
    return bytes.substr(0, static_cast<std::size_t>(got));
  }

  TemporaryDirectory directory_;
  std::optional<FileList> list_;
  std::vector<Descriptor> opened_;
};

TEST_F(UnpackedFilesTest, ThreadsThatWantTheSameFileUnpackItOnce) {
  for (int round = 0; round < 20; ++round) {
    UnpackedFiles files(4, 4 * kRawBytes);
    std::vector<Unpacked> found(kThreads);
    std::barrier start(kThreads);
    {
      std::vector<std::jthread> threads;
      for (std::size_t t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
          start.arrive_and_wait();
          found[t] = open(files, 2);
        });
      }
    }
    EXPECT_THAT(found, testing::Each(found[0]));
    EXPECT_EQ(contents(found[0]), std::string(kRawBytes, 'c'));
  }
}

TEST_F(UnpackedFilesTest, ThoseUsedLastAreKept) {
  UnpackedFiles files(4, 2 * kRawBytes);
  std::vector<std::weak_ptr<const Descriptor>> seen;
  for (const std::size_t i : {0U, 1U, 0U, 2U}) seen.emplace_back(open(files, i));
  EXPECT_EQ(seen[0].lock(), seen[2].lock());
  EXPECT_FALSE(seen[0].expired());
  EXPECT_TRUE(seen[1].expired());
  EXPECT_FALSE(seen[3].expired());
}

TEST_F(UnpackedFilesTest, WhatIsHeldIsNotUnpackedAgain) {
  UnpackedFiles files(4, 0);
  const Unpacked held = open(files, 0);
  std::weak_ptr<const Descriptor> other = open(files, 1);
  EXPECT_EQ(open(files, 0), held);
  EXPECT_TRUE(other.expired());
  EXPECT_EQ(contents(held), std::string(kRawBytes, 'a'));
}

TEST_F(UnpackedFilesTest, NobodyWritesToTheMemory) {
  UnpackedFiles files(4, 0);
  const Unpacked memory = open(files, 0);
  EXPECT_EQ(::pwrite(memory->get(), "x", 1, 0), -1);
  EXPECT_EQ(::ftruncate(memory->get(), 0), -1);
  EXPECT_EQ(::ftruncate(memory->get(), 2 * kRawBytes), -1);
}

// All of them get the error, and none waits for ever.
TEST_F(UnpackedFilesTest, AFileThatCannotBeUnpackedIsAnErrorForAllWhoWantIt) {
  directory_.write("b", std::string(static_cast<std::size_t>(list_->bytes(1)), 'x'));
  UnpackedFiles files(4, kRawBytes);
  const Unpacked held = open(files, 0);
  std::atomic<int> failed = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] { failed += error_of([&] { (void)open(files, 1); }) ? 1 : 0; });
    }
  }
  EXPECT_EQ(failed, kThreads);
  directory_.write("b", packed(std::string(kRawBytes, 'b')));
  EXPECT_EQ(contents(open(files, 1)), std::string(kRawBytes, 'b'));
  EXPECT_EQ(open(files, 0), held);
}

}  // namespace
}  // namespace rota::test
