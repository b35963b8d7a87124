// Directories whose names are recognised.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "catalog/recognition.hpp"
#include "source/reading.hpp"
#include "temporary_directory.hpp"

namespace rota::test {
namespace {

namespace fs = std::filesystem;

class Recognition : public testing::Test {
 public:
  void write(std::initializer_list<std::string> names) const {
    for (const std::string& name : names) directory.write(name, "");
  }
  [[nodiscard]] KnownNames recognising(const PatternOptions& given = {}) const {
    return recognise(AskedDirectory(directory.path().string() + "/"), given);
  }
  [[nodiscard]] std::string pattern() const { return recognising().pattern.text(); }
  void expect_error(ErrorCode code, std::initializer_list<std::string> words,
                    const PatternOptions& given = {}) const {
    EXPECT_THAT(error_of([&] { (void)recognising(given); }), is_error(code, words));
  }

  TemporaryDirectory directory;
};

TEST_F(Recognition, NumberThatChangesIsTheIndex) {
  write({"s3_img_0_v2.h5", "s3_img_1_v2.h5"});
  EXPECT_EQ(pattern(), "s3_img_{index}_v2.h5");
}

TEST_F(Recognition, NumberAfterOfIsTheTotal) {
  write({"train-00001-of-00002", "train-00002-of-00002"});
  const KnownNames known = recognising();
  EXPECT_EQ(known.pattern.text(), "train-{index:05}-of-{total:05}");
  EXPECT_EQ(known.options.files, 2);
  EXPECT_EQ(known.options.first_index, 1);
}

TEST_F(Recognition, WordThatEndsInOfTellsNoTotal) {
  write({"proof_0_roof_9", "proof_1_roof_9"});
  EXPECT_EQ(pattern(), "proof_{index}_roof_9");
}

TEST_F(Recognition, SingleFileHasOneNumber) {
  write({"img_0_of_1.h5"});
  EXPECT_EQ(pattern(), "img_{index}_of_{total}.h5");
}

TEST_F(Recognition, NumbersThatOutgrowTheirWidthKeepIt) {
  for (int i = 0; i <= 100; ++i) write({fmt::format("{:02}.x", i)});
  EXPECT_EQ(pattern(), "{index:02}.x");
}

TEST_F(Recognition, NumbersWithoutZerosInFrontArePlain) {
  for (int i = 0; i <= 100; ++i) write({fmt::format("{}.x", i)});
  EXPECT_EQ(pattern(), "{index}.x");
}

TEST_F(Recognition, WidthsThatFitNoRuleAreRefused) {
  write({"1.x", "02.x", "003.x"});
  expect_error(ErrorCode::invalid_argument, {"003.x", "filled up with zeros", "give a pattern"});
}

TEST_F(Recognition, HiddenFilesAreNotLookedAt) {
  write({"0.x", "1.x", ".0.x.swp", ".index"});
  EXPECT_EQ(pattern(), "{index}.x");
}

TEST_F(Recognition, SeveralSeriesAreRefused) {
  write({"a_0.x", "a_1.x", "b_0.x"});
  expect_error(ErrorCode::invalid_argument, {"several series", "a_0.x", "b_0.x", "give a pattern"});
}

TEST_F(Recognition, FilesBesideDirectoriesAreRefused) {
  write({"0.x", "1/0.x"});
  expect_error(ErrorCode::invalid_argument, {"files and directories", "0.x"});
}

TEST_F(Recognition, SeveralNumbersThatChangeAreRefused) {
  write({"0_1.x", "1_0.x"});
  expect_error(ErrorCode::invalid_argument, {"2 numbers", "0_1.x", "give a pattern"});
}

TEST_F(Recognition, TotalsThatDisagreeAreRefused) {
  write({"0_of_2.x", "1_of_3.x"});
  expect_error(ErrorCode::invalid_argument, {"0_of_2.x", "1_of_3.x", "do not agree"});
}

TEST_F(Recognition, TotalThatIsNotAsSaidIsRefused) {
  write({"0_of_2.x", "1_of_2.x"});
  expect_error(ErrorCode::invalid_argument, {"2 files", "PatternOptions::files 3"}, {.files = 3});
}

TEST_F(Recognition, GapsThatAreSeenAreErrors) {
  write({"0.x", "1.x", "4.x"});
  expect_error(ErrorCode::not_found, {"of 5 files", "2 are missing", "number 2"});
}

TEST_F(Recognition, MoreFilesThanTheTotalAreRefused) {
  write({"0_of_2.x", "1_of_2.x", "2_of_2.x"});
  expect_error(ErrorCode::invalid_argument, {"2 files", "there are 3"});
}

TEST_F(Recognition, NamesWithoutNumbersAreRefused) {
  write({"data.x"});
  expect_error(ErrorCode::invalid_argument, {"data.x has no number"});
  fs::remove(directory / "data.x");
  expect_error(ErrorCode::not_found, {"holds no file"});
}

TEST_F(Recognition, FoldersAreRecognisedByTheFirstOfThem) {
  write({"part_08/img_0_of_4.x", "part_08/img_2_of_4.x", "part_09/img_1_of_4.x", "part_10/img_3_of_4.x"});
  const KnownNames known = recognising();
  EXPECT_EQ(known.pattern.text(), "part_{folder:02}/img_{index}_of_{total}.x");
  EXPECT_EQ(known.options.folders, 3);
  EXPECT_EQ(known.options.first_folder, 8);
  fs::remove_all(directory / "part_09");
  expect_error(ErrorCode::not_found, {"part_08", "1 are missing", "number 9"});
}

TEST_F(Recognition, MoreNamesThanAreLookedAtAreToldApartByAsking) {
  for (const auto* format : {"{:05}", "{}"}) {
    for (int i = 0; i < 10'500; ++i) directory.write(fmt::format(fmt::runtime(format), i), "");
    EXPECT_EQ(pattern(), std::string(format) == "{}" ? "{index}" : "{index:05}");
    EXPECT_EQ(recognising().options.files, 0);
    for (const auto& entry : fs::directory_iterator(directory.path())) fs::remove(entry);
  }
}

TEST_F(Recognition, WidthThatNamesDoNotTellIsAskedFor) {
  for (int i = 100'000; i < 110'001; ++i) directory.write(fmt::format("{}", i), "");
  expect_error(ErrorCode::invalid_argument, {"unclear", "give a pattern"});
}

}  // namespace
}  // namespace rota::test
