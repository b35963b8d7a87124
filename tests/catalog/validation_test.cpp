// Generated files that are looked for on a disk.

#include "source/reading.hpp"
#include "test.hpp"
#include "unprivileged.hpp"

namespace rota::test::validation_test {

class Validation : public Test {
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
    told.folders = 4;
    Catalog::from_pattern(directory.path().string() + "/{folder}/img_{index}.x", told, how);
  }

  TemporaryDirectory directory;
};

TEST_F(Validation, CountsWhatIsMissingAndNamesThreeInOrder) {
  for (int i = 20; i < kFiles; i += 10) fs::remove(directory / name(i));
  const auto missing = error_of([&] { make(); });
  EXPECT_THAT(missing,
              is_error(not_found,
                       {"the 200 files", "of 204 names asked for, 18 are missing, 0 forbidden, 0 unreachable",
                        "No such file", ", ...; ", "restore"}));
  const auto again = error_of([&] { make({}, {.listing_threads = 1}); });
  EXPECT_STREQ(missing->what(), again->what());
}

TEST_F(Validation, TellsWhatItSawWhereSomethingIsMissing) {
  fs::remove(directory / name(8));
  const std::string below = directory.path().string() + "/";
  EXPECT_ERROR(make(), not_found, {name(8), below + "0/ holds 49 such names, img_0.x to img_196.x"});
  fs::remove_all(directory / "2");
  EXPECT_ERROR(make(), not_found,
               {"of 204 names asked for, 52 are missing", below + " holds 3 such names, 0 to 3"});
  fs::remove_all(directory / "0");
  EXPECT_ERROR(make(), not_found, {below + " holds 2 such names, 1 to 3"});
}

TEST_F(Validation, WhatIsNoRegularFileIsMissing) {
  fs::remove(directory / name(100));
  fs::create_directory(directory / name(100));
  EXPECT_ERROR(make(), not_found, {"1 are missing", name(100) + " (no regular file)"});
}

TEST_F(Validation, ForbiddenIsNotMissing) {
  fs::permissions(directory / name(100), fs::perms::none);
  const std::string text = error_as_nobody([&] { make(); });
  EXPECT_THAT(text, AllOf(StartsWith("io: "), HasSubstr("0 are missing, 1 forbidden"),
                          HasSubstr("(Permission denied)"), HasSubstr("the right")));
  fs::remove(directory / name(101));
  EXPECT_THAT(error_as_nobody([&] { make(); }),
              AllOf(StartsWith("not_found: "), HasSubstr("1 are missing, 1 forbid")));
}

TEST_F(Validation, LinkThatLeadsInACircleIsUnreachable) {
  fs::remove(directory / name(100));
  fs::create_symlink(fs::path(name(100)).filename(), directory / name(100));
  EXPECT_ERROR(make(), io, {"0 are missing, 0 forbidden, 1 unreachable", "check the file system"});
}

TEST_F(Validation, TellsHowFarItIs) {
  Progress last;
  fs::remove(directory / name(100));
  const CatalogOptions how{.progress = [&](const Progress& progress) {
    if (progress.is_over) last = progress;
  }};
  EXPECT_NE(error_of([&] { make({}, how); }), std::nullopt);
  EXPECT_EQ(last.task, "look for files");
  EXPECT_GT(last.done, kFiles);
  EXPECT_EQ(last.total, last.done);
  EXPECT_EQ(last.failed, 1);
}

}  // namespace rota::test::validation_test
