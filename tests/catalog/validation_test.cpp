// Generated files that are looked for on a disk.

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

TEST_F(Validation, NamesTheFirstThatIsMissing) {
  for (int i = 20; i < kFiles; i += 10) fs::remove(directory / name(i));
  const auto missing = error_of([&] { make(); });
  EXPECT_THAT(missing, is_error(not_found, {"the 200 files", name(20) + " (No such file or directory)",
                                            "restore what is missing"}));
  const auto again = error_of([&] { make({}, {.listing_threads = 1}); });
  EXPECT_STREQ(missing->what(), again->what());
}

TEST_F(Validation, TellsWhatItSawWhereSomethingIsMissing) {
  fs::remove(directory / name(8));
  const std::string below = directory.path().string() + "/";
  EXPECT_ERROR(make(), not_found, {name(8), below + "0/ holds img_0.x to img_196.x"});
  fs::remove_all(directory / "2");
  EXPECT_ERROR(make(), not_found, {name(2), below + " holds 0 to 3"});
  fs::remove_all(directory / "0");
  EXPECT_ERROR(make(), not_found, {below + " holds 1 to 3"});
}

TEST_F(Validation, WhatIsNoRegularFileIsMissing) {
  fs::remove(directory / name(100));
  fs::create_directory(directory / name(100));
  EXPECT_ERROR(make(), not_found, {name(100) + " (of another kind)"});
}

TEST_F(Validation, ForbiddenIsNotMissing) {
  fs::permissions(directory / name(100), fs::perms::none);
  EXPECT_THAT(error_as_nobody([&] { make(); }),
              AllOf(StartsWith("io: "), HasSubstr(name(100) + " (Permission denied)"),
                    HasSubstr("let this user read it")));
  fs::remove(directory / name(99));
  EXPECT_THAT(error_as_nobody([&] { make(); }), AllOf(StartsWith("not_found: "), HasSubstr(name(99))));
}

TEST_F(Validation, LinkThatLeadsInACircleIsUnreachable) {
  fs::remove(directory / name(100));
  fs::create_symlink(fs::path(name(100)).filename(), directory / name(100));
  EXPECT_ERROR(make(), io, {name(100), "check the file system"});
}

TEST_F(Validation, TellsHowFarItIs) {
  Progress last;
  const CatalogOptions how{.progress = [&](const Progress& progress) {
    if (progress.is_over) last = progress;
  }};
  make({}, how);
  EXPECT_EQ(last.task, "look for files");
  EXPECT_GT(last.done, kFiles);
  EXPECT_EQ(last.total, last.done);
}

}  // namespace rota::test::validation_test
