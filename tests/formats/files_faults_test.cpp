#include "source/reading.hpp"
#include "test.hpp"
#include "unprivileged.hpp"

namespace rota::test::files_faults_test {

class FilesFaults : public testing::Test {
 public:
  [[nodiscard]] std::optional<Error> opening(std::string_view name) const {
    return error_of([&] { open_files(directory / name); });
  }
  [[nodiscard]] std::string at(std::string_view name) const { return (directory / name).string(); }
  void forbid(std::string_view name) const { fs::permissions(directory / name, fs::perms::none); }

  ~FilesFaults() override {
    std::error_code ignored;
    for (const auto* name : {"closed", "d/closed"}) {
      fs::permissions(directory / name, fs::perms::owner_all, ignored);
    }
  }

  TemporaryDirectory directory;
};

TEST_F(FilesFaults, MissingPathIsNotFound) {
  EXPECT_THAT(opening("nowhere"), is_error(ErrorCode::not_found, {"open", at("nowhere"), "check the path"}));
  EXPECT_THAT(opening("no/where*"), is_error(ErrorCode::not_found, {at("no/")}));
}

TEST_F(FilesFaults, EmptyPathIsRefused) {
  EXPECT_THAT(error_of([] { open_files(""); }), is_error(ErrorCode::invalid_argument, {"path is empty"}));
}

TEST_F(FilesFaults, DirectoryWithoutFilesIsNotFound) {
  fs::create_directories(directory / "d/e");
  EXPECT_THAT(opening("d"), is_error(ErrorCode::not_found, {at("d"), "holds no regular file"}));
  EXPECT_THAT(opening("d/*"), is_error(ErrorCode::not_found, {at("d/*"), "matches no regular file"}));
}

TEST_F(FilesFaults, PipeAloneIsNotFound) {
  EXPECT_THAT(error_of([] { open_files("/dev/null"); }), is_error(ErrorCode::not_found, {"/dev/null"}));
}

TEST_F(FilesFaults, LinkThatLeadsNowhereIsNamed) {
  directory.write("d/ok", "");
  fs::create_symlink("gone", directory / "d/link");
  EXPECT_THAT(opening("d"), is_error(ErrorCode::io, {at("d/link"), "leads to nothing"}));
  EXPECT_THAT(opening("d/*"), is_error(ErrorCode::io, {at("d/link"), "leads to nothing"}));
}

TEST_F(FilesFaults, CycleOfLinksIsNamed) {
  directory.write("a/b/file", "");
  fs::create_directory_symlink("..", directory / "a/b/up");
  EXPECT_THAT(opening("a"), is_error(ErrorCode::unsupported, {at("a/b/up"), "cycle", "remove the link"}));
}

TEST_F(FilesFaults, CycleThroughTheRootsOwnParentIsNamed) {
  directory.write("a/file", "");
  fs::create_directory_symlink(directory.path(), directory / "a/out");
  EXPECT_THAT(opening("a"), is_error(ErrorCode::unsupported, {at("a/out/a")}));
}

TEST_F(FilesFaults, LinkToItselfIsACycle) {
  fs::create_directories(directory / "d");
  fs::create_symlink("self", directory / "d/self");
  EXPECT_THAT(opening("d"), is_error(ErrorCode::unsupported, {at("d/self"), "cycle"}));
  EXPECT_THAT(opening("d/s*"), is_error(ErrorCode::unsupported, {at("d/self"), "cycle"}));
}

TEST_F(FilesFaults, DirectoryThatMayNotBeReadIsNamed) {
  directory.write("d/ok", "");
  directory.write("d/closed/file", "");
  forbid("d/closed");
  const auto walked = error_as_nobody([&] { open_files(directory / "d"); });
  EXPECT_THAT(walked, testing::AllOf(testing::StartsWith("io: "), testing::HasSubstr(at("d/closed") + "/:")));
  const auto matched = error_as_nobody([&] { open_files(directory / "d/*/*"); });
  EXPECT_THAT(matched, testing::AllOf(testing::StartsWith("io: "), testing::HasSubstr(at("d/closed"))));
}

TEST_F(FilesFaults, FileThatMayNotBeReadIsNamedWhenRead) {
  directory.write("closed", "1");
  forbid("closed");
  const auto text = error_as_nobody([&] {
    const auto source = open_files(directory.path());
    Samples(*source, ids({0}));
  });
  EXPECT_THAT(text, testing::AllOf(testing::StartsWith("io: "), testing::HasSubstr(at("closed")),
                                   testing::HasSubstr("the right to read it")));
}

TEST_F(FilesFaults, FileKnownByItsNameThatIsGoneOrNoFileIsNamed) {
  directory.write("a", "");
  directory.write("b", "");
  const auto source = open_files(Catalog(directory.path(), {.change_detection = ChangeDetection::by_name}));
  fs::remove(directory / "a");
  fs::remove(directory / "b");
  fs::create_directory(directory / "b");
  EXPECT_THAT(error_of([&] { Samples(*source, ids({0})); }), is_error(ErrorCode::io, {at("a")}));
  EXPECT_THAT(error_of([&] { Samples(*source, ids({1})); }),
              is_error(ErrorCode::io, {at("b"), "no regular"}));
}

TEST_F(FilesFaults, FileThatChangedItsSizeIsCorrupt) {
  directory.write("grown", "12345");
  directory.write("shrunk", "12345");
  const auto source = open_files(directory.path());
  directory.write("grown", "1234567");
  directory.write("shrunk", "123");
  EXPECT_THAT(error_of([&] { Samples(*source, ids({0})); }),
              is_error(ErrorCode::corrupt, {at("grown"), "7 bytes now", "had 5"}));
  EXPECT_THAT(error_of([&] { Samples(*source, ids({1})); }),
              is_error(ErrorCode::corrupt, {at("shrunk"), "3 bytes now", "had 5", "restore the file"}));
}

TEST_F(FilesFaults, FileThatGaveWayToAPipeIsCorruptAndNothingWaits) {
  const auto path = directory.write("a", "12345");
  const auto source = open_files(directory.path());
  fs::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { Samples(*source, ids({0})); }),
              is_error(ErrorCode::corrupt, {at("a"), "had 5"}));
}

TEST_F(FilesFaults, FileThatIsGoneIsNotFoundWhenRead) {
  const auto path = directory.write("a", "12345");
  const auto source = open_files(directory.path());
  fs::remove(path);
  EXPECT_THAT(error_of([&] { Samples(*source, ids({0})); }), is_error(ErrorCode::not_found, {at("a")}));
}

TEST_F(FilesFaults, IdsPastTheEndAreOutOfRange) {
  directory.write("a", "12345");
  const auto source = open_files(directory.path());
  for (const std::int64_t id : {-1, 1}) {
    EXPECT_THAT(error_of([&] { Samples(*source, ids({id})); }),
                is_error(ErrorCode::out_of_range, {"sample " + std::to_string(id), "1 samples"}));
  }
  EXPECT_EQ(source->where({1}), "");
}

TEST_F(FilesFaults, NoListingThreadsIsRefused) {
  EXPECT_THAT(error_of([&] { Catalog(directory.path(), {.listing_threads = 0}); }),
              is_error(ErrorCode::invalid_argument, {"listing_threads is 0"}));
}

}  // namespace rota::test::files_faults_test
