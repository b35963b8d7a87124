// How sure it is that generated files are there.

#include "catalog/validation.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "rota/catalog.hpp"
#include "source/reading.hpp"
#include "temporary_directory.hpp"
#include "unprivileged.hpp"

namespace rota::test {
namespace {

namespace fs = std::filesystem;

Key key(std::uint64_t seed) { return derive_key(seed, 0, Purpose::global, 0); }

TEST(SampleSize, IsWhatConfidenceTakes) {
  EXPECT_EQ(sample_size(1'000'000, 0.95, 0.001), 2995);
  EXPECT_EQ(sample_size(1'000'000, 0.99, 0.01), 459);
  EXPECT_EQ(sample_size(1000, 0.95, 0.001), 1000);
  EXPECT_EQ(sample_size(1'000'000, 1, 0.001), 1'000'000);
  EXPECT_EQ(sample_size(1'000'000, 0, 0.001), 0);
  EXPECT_EQ(sample_size(7, 0.95, 1e-300), 7);
}

TEST(FileSample, HoldsEachFileAtMostOnceAndBothEnds) {
  for (const std::int64_t files : {1, 2, 3, 10, 1000}) {
    for (const std::int64_t count : {0, 1, 2, 5, 9, 999, 1000}) {
      if (count > files) continue;
      const FileSample sample(files, count, key(static_cast<std::uint64_t>(count)));
      std::set<std::int64_t> seen;
      for (std::int64_t i = 0; i < sample.size(); ++i) seen.insert(sample[i]);
      ASSERT_FALSE(seen.empty());
      ASSERT_EQ(std::ssize(seen), sample.size());
      ASSERT_GE(sample.size(), count);
      ASSERT_LE(sample.size(), std::min(files, count + 2));
      ASSERT_EQ(*seen.begin(), 0);
      ASSERT_EQ(*seen.rbegin(), files - 1);
    }
  }
}

// In how many of 1000 samples there is one of those that are missing.
int times_noticed(std::int64_t files, double missing_fraction,
                  const std::function<bool(std::int64_t)>& gone) {
  int noticed = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const FileSample sample(files, sample_size(files, 0.95, missing_fraction), key(seed));
    bool is_noticed = false;
    for (std::int64_t i = 0; i < sample.size() && !is_noticed; ++i) is_noticed = gone(sample[i]);
    noticed += is_noticed ? 1 : 0;
  }
  return noticed;
}

TEST(FileSample, NoticesGapsWithThePromisedProbabilityHoweverTheyLie) {
  constexpr std::int64_t kFiles = 6000;
  for (const std::int64_t k : {7, 16, 100, 300}) {
    const double fraction = 1.0 / static_cast<double>(k);
    // Of 1000 times 0.95, less three standard deviations.
    EXPECT_GE(times_noticed(kFiles, fraction, [&](auto i) { return i % k == k / 2; }), 930) << k;
    EXPECT_GE(times_noticed(kFiles, fraction, [&](auto i) { return i > 100 && i <= 100 + kFiles / k; }), 930);
  }
}

TEST(FileSample, IsAnotherForAnotherSeed) {
  const FileSample one(1'000'000, 10, key(1));
  const FileSample other(1'000'000, 10, key(2));
  EXPECT_NE(one[0], other[0]);
}

class Validation : public testing::Test {
 public:
  static constexpr int kFiles = 200;

  Validation() {
    for (int i = 0; i < kFiles; ++i) directory.write(name(i), "");
  }
  ~Validation() override {
    std::error_code ignored;
    for (int i = 0; i < 4; ++i) {
      fs::permissions(directory / fmt::format("{}", i), fs::perms::owner_all, ignored);
    }
  }
  static std::string name(int i) { return fmt::format("{}/img_{}.x", i % 4, i); }
  void make(const PatternOptions& options = {}, const CatalogOptions& how = {}) const {
    PatternOptions told = options;
    told.files = kFiles;
    told.layout = FolderLayout::round_robin;
    Catalog::from_pattern(directory.path().string() + "/{folder}/img_{index}.x", told, how);
  }

  TemporaryDirectory directory;
};

TEST_F(Validation, CountsWhatIsMissingAndNamesThreeInOrder) {
  for (int i = 20; i < kFiles; i += 10) fs::remove(directory / name(i));
  const auto missing = error_of([&] { make(); });
  EXPECT_THAT(missing,
              is_error(ErrorCode::not_found,
                       {"of 200 asked for, of 200 in all, 18 are missing, 0 forbidden, 0 unreachable",
                        "No such file", ", ...; restore"}));
  const auto again = error_of([&] { make({}, {.listing_threads = 1}); });
  EXPECT_STREQ(missing->what(), again->what());
  EXPECT_STRNE(missing->what(), error_of([&] { make({.seed = 1}); })->what());
}

TEST_F(Validation, AsksForNoMoreThanTheSample) {
  for (int i = 20; i < kFiles; i += 10) fs::remove(directory / name(i));
  EXPECT_THAT(error_of([&] { make({.confidence = 0.999, .missing_fraction = 0.09}); }),
              is_error(ErrorCode::not_found, {"of 7", " asked for, of 200 in all"}));
  EXPECT_EQ(error_of([&] { make({.confidence = 0}); }), std::nullopt);
}

TEST_F(Validation, FirstAndLastAreAlwaysAskedFor) {
  for (const int i : {0, kFiles - 1}) {
    fs::rename(directory / name(i), directory / "kept");
    const auto error = error_of([&] {
      Catalog::from_pattern(directory.path().string() + "/{folder}/img_{index}.x",
                            {.files = kFiles,
                             .first_index = 0,
                             .folders = 4,
                             .first_folder = 0,
                             .layout = FolderLayout::round_robin,
                             .confidence = 0});
    });
    EXPECT_THAT(error, is_error(ErrorCode::not_found, {name(i)}));
    fs::rename(directory / "kept", directory / name(i));
  }
}

TEST_F(Validation, WhatIsNoRegularFileIsMissing) {
  fs::remove(directory / name(100));
  fs::create_directory(directory / name(100));
  EXPECT_THAT(error_of([&] { make(); }),
              is_error(ErrorCode::not_found, {"1 are missing", name(100) + " (no regular file)"}));
}

TEST_F(Validation, ForbiddenIsNotMissing) {
  fs::permissions(directory / name(100), fs::perms::none);
  const std::string text = error_as_nobody([&] { make(); });
  EXPECT_THAT(text,
              testing::AllOf(testing::StartsWith("io: "), testing::HasSubstr("0 are missing, 1 forbidden"),
                             testing::HasSubstr("(Permission denied)"), testing::HasSubstr("the right")));
  fs::remove(directory / name(101));
  EXPECT_THAT(
      error_as_nobody([&] { make(); }),
      testing::AllOf(testing::StartsWith("not_found: "), testing::HasSubstr("1 are missing, 1 forbid")));
}

TEST_F(Validation, LinkThatLeadsInACircleIsUnreachable) {
  fs::remove(directory / name(100));
  fs::create_symlink(fs::path(name(100)).filename(), directory / name(100));
  EXPECT_THAT(error_of([&] { make(); }), is_error(ErrorCode::io, {"0 are missing, 0 forbidden, 1 unreachable",
                                                                  "check the file system"}));
}

TEST_F(Validation, TellsHowFarItIs) {
  Progress last;
  fs::remove(directory / name(100));
  const CatalogOptions how{.progress = [&](const Progress& progress) {
    if (progress.is_over) last = progress;
  }};
  EXPECT_NE(error_of([&] { make({}, how); }), std::nullopt);
  EXPECT_EQ(last.task, "look for files");
  EXPECT_EQ(last.done, kFiles);
  EXPECT_EQ(last.total, kFiles);
  EXPECT_EQ(last.failed, 1);
}

}  // namespace
}  // namespace rota::test
