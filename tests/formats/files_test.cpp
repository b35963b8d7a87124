#include <sys/socket.h>
#include <sys/un.h>

#include "formats/python.hpp"
#include "unprivileged.hpp"

namespace rota::test::files_test {

std::vector<std::string> paths(const Source& source) {
  std::vector<std::string> result;
  for (const SampleId id : all_ids(source)) result.push_back(source.where(id));
  return result;
}

class Files : public Test {
 public:
  ~Files() override {
    std::error_code ignored;
    for (const auto* name : {"closed", "d/closed"}) {
      fs::permissions(directory / name, fs::perms::owner_all, ignored);
    }
  }
  std::string at(std::string_view name) const { return (directory / name).string(); }
  auto opening(std::string_view name) const {
    return error_of([&] { open(directory / name, "files"); });
  }

  TemporaryDirectory directory;
};

using FilesFaults = Files;

TEST_F(Files, AreSamplesOfOneRaggedFieldAndMayBeEmpty) {
  directory.write("a", "");
  directory.write("b", "xyz");
  const auto source = open(directory.path(), "files");
  EXPECT_THAT(source->fields(), ElementsAre(Field{"data", DType::uint8, {}, true}));
  EXPECT_EQ(contents(*source), (Contents{{""}, {"xyz"}}));
}

TEST_F(Files, MayTellTheirPathsAndFolders) {
  for (const char* const name : {"top", "cat/0.jpg", "cat/big/1.jpg", "d\xff/x"}) directory.write(name, name);
  const auto source = open(directory.path(), FilesOptions{.keys = true});
  EXPECT_THAT(field_names(*source), ElementsAre("data", "path", "folder"));
  expect_samples(*source, {"cat/0.jpg", "cat/0.jpg", "cat", "cat/big/1.jpg", "cat/big/1.jpg", "big",
                           "d\xff/x", "d\xff/x", "d\xff", "top", "top", ""});
  EXPECT_EQ(source->fingerprint(), open(directory.path(), "files")->fingerprint());
  const Catalog by_name(directory.path(), {.change_detection = ChangeDetection::by_name});
  EXPECT_EQ(contents(*open(by_name, FilesOptions{.keys = true})), contents(*source));
}

TEST_F(Files, AreReadWholeAtAnyIdsInAnyOrderByManyThreads) {
  std::mt19937_64 random(1);
  std::map<std::string, std::string> expected;
  for (int i = 0; i < 1000; ++i) {
    std::string text(random() % 5000, static_cast<char>('a' + i % 26));
    const auto path = directory.write(fmt::format("d{}/{}", i % 7, i), text);
    expected[path] = std::move(text);
  }
  const auto source = open(Catalog(directory.path(), {.listing_threads = 7}), "files");
  ASSERT_EQ(source->size(), 1000);
  EXPECT_EQ(open(Catalog(directory.path(), {.listing_threads = 1}), "files")->fingerprint(),
            source->fingerprint());
  in_threads(8, [&](std::size_t seed) {
    std::mt19937_64 any(seed);
    const Ids wanted = random_ids(*source, 500, any);
    const Samples samples(*source, wanted);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_EQ(samples.sample(0, i), expected.at(source->where(wanted[i])));
    }
  });
}

TEST_F(Files, AreFoundThroughSymbolicLinks) {
  const TemporaryDirectory elsewhere;
  elsewhere.write("x/file", "linked");
  fs::create_directory_symlink(elsewhere / "x", directory / "dir");
  fs::create_directory_symlink(elsewhere / "x", directory / "dir2");  // which is no cycle
  fs::create_symlink(elsewhere / "x/file", directory / "file");
  const auto source = open(directory.path(), "files");
  EXPECT_THAT(paths(*source), ElementsAre(at("dir/file"), at("dir2/file"), at("file")));
  EXPECT_EQ(contents(*source), Contents(3, {"linked"}));
}

TEST_F(Files, ArePickedFromPipesAndSockets) {
  directory.write("a", "1");
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  at("socket").copy(&address.sun_path[0], sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ::close(fd);
  EXPECT_THAT(paths(*open(directory.path(), "files")), ElementsAre(at("a")));
  EXPECT_THAT(paths(*open(at("*"), "files")), ElementsAre(at("a")));
  EXPECT_THAT(opening("pipe"), is_error(not_found, {"no regular file"}));
}

TEST_F(Files, AreNamedByAGlobAsInAShell) {
  for (const auto* name : {"x1/a.bin", "x1/b.txt", "x2/a.bin", "y/a.bin", "x3/sub.bin/deep"}) {
    directory.write(name, name);
  }
  const auto source = open(at("x?/*.bin"), "files");
  EXPECT_THAT(paths(*source), ElementsAre(at("x1/a.bin"), at("x2/a.bin")));
  EXPECT_EQ(contents(*source), (Contents{{"x1/a.bin"}, {"x2/a.bin"}}));
  EXPECT_THAT(paths(*open(at("y/a.bin"), "files")), ElementsAre(at("y/a.bin")));
}

TEST_F(Files, WhosePathLooksLikeAGlobAreTakenByName) {
  directory.write("data[1]/a", "1");
  directory.write("data[1]/b*", "2");
  EXPECT_EQ(open(at("data[1]"), "files")->size(), 2);
  EXPECT_THAT(paths(*open(at("data[1]/b*"), "files")), ElementsAre(at("data[1]/b*")));
}

// Those of a glob have names relative to its fixed directory.
TEST_F(Files, HaveTheSameFingerprintWhereverTheyLie) {
  const TemporaryDirectory other;
  for (const TemporaryDirectory* one : {static_cast<const TemporaryDirectory*>(&directory), &other}) {
    one->write("d/a1", one == &other ? "1" : "x");
    one->write("d/a2", "2");
  }
  EXPECT_EQ(open(directory.path(), "files")->fingerprint(), open(other.path() / "", "files")->fingerprint());
  EXPECT_EQ(open(at("d/a*"), "files")->fingerprint(),
            open((other / "d/a[12]").string(), "files")->fingerprint());
  EXPECT_EQ(open(at("d/a*"), "files")->fingerprint(), open(at("d"), "files")->fingerprint());
  EXPECT_NE(open(at("*/a*"), "files")->fingerprint(), open(at("d"), "files")->fingerprint());
}

TEST_F(Files, ChangeTheirFingerprintWithNamesSizesAndNumber) {
  directory.write("a", "123");
  const Fingerprint first = open(directory.path(), "files")->fingerprint();
  directory.write("a", "1234");
  const Fingerprint longer = open(directory.path(), "files")->fingerprint();
  fs::rename(directory / "a", directory / "b");
  const Fingerprint renamed = open(directory.path(), "files")->fingerprint();
  directory.write("c", "");
  const Fingerprint more = open(directory.path(), "files")->fingerprint();
  EXPECT_NE(first, longer);
  EXPECT_NE(longer, renamed);
  EXPECT_NE(renamed, more);
}

TEST_F(Files, KnownByTheirNamesAreRegularOnesOfAnySizeWhenTheyAreRead) {
  directory.write("a", "123");
  directory.write("d/b", "");
  const CatalogOptions by_name{.change_detection = ChangeDetection::by_name};
  const auto source = open(Catalog(directory.path(), by_name), "files");
  EXPECT_NE(source->fingerprint(), open(directory.path(), "files")->fingerprint());
  directory.write("a", "another");
  EXPECT_EQ(open(Catalog(directory.path(), by_name), "files")->fingerprint(), source->fingerprint());
  EXPECT_EQ(contents(*source), (Contents{{"another"}, {""}}));
  EXPECT_THAT(paths(*open(Catalog(at("*"), by_name), "files")), ElementsAre(at("a")));
  fs::remove(directory / "a");
  EXPECT_THAT(reading(*source, {0}), is_error(io, {at("a")}));
  fs::create_directory(directory / "a");
  EXPECT_THAT(reading(*source, {0}), is_error(io, {at("a"), "no regular"}));
}

// ---- what is no dataset ----

TEST_F(FilesFaults, PathsThatLeadToNoFilesAreNotFound) {
  fs::create_directories(directory / "d/e");
  EXPECT_THAT(opening("nowhere"), is_error(not_found, {"open", at("nowhere"), "check the path"}));
  EXPECT_THAT(opening("no/where*"), is_error(not_found, {at("no/")}));
  EXPECT_THAT(opening("d"), is_error(not_found, {at("d"), "holds no regular file"}));
  EXPECT_THAT(opening("d/*"), is_error(not_found, {at("d/*"), "matches no regular file"}));
  for (const auto* path : {"/dev/null", "/dev/null/data"})
    EXPECT_ERROR(open(path, "files"), not_found, {"/dev/null"});
  EXPECT_ERROR(open("", "files"), invalid_argument, {"path is empty"});
}

TEST_F(FilesFaults, LinkThatLeadsNowhereIsNamed) {
  directory.write("d/ok", "");
  fs::create_symlink("gone", directory / "d/link");
  EXPECT_THAT(opening("d"), is_error(io, {at("d/link"), "leads to nothing"}));
  EXPECT_THAT(opening("d/*"), is_error(io, {at("d/link"), "leads to nothing"}));
}

TEST_F(FilesFaults, CycleOfLinksIsNamed) {
  directory.write("a/b/file", "");
  fs::create_directory_symlink("..", directory / "a/b/up");
  EXPECT_THAT(opening("a"), is_error(unsupported, {at("a/b/up"), "cycle", "remove the link"}));
  directory.write("c/file", "");
  fs::create_directory_symlink(directory.path(), directory / "c/out");  // by the root's own parent
  EXPECT_THAT(opening("c"), is_error(unsupported, {at("c/out/")}));
  fs::create_directories(directory / "d");
  fs::create_symlink("self", directory / "d/self");
  EXPECT_THAT(opening("d"), is_error(unsupported, {at("d/self"), "cycle"}));
  EXPECT_THAT(opening("d/s*"), is_error(unsupported, {at("d/self"), "cycle"}));
}

TEST_F(FilesFaults, WhatMayNotBeReadIsNamed) {
  directory.write("d/ok", "");
  directory.write("d/closed/file", "");
  directory.write("closed", "1");
  for (const auto* name : {"d/closed", "closed"}) fs::permissions(directory / name, fs::perms::none);
  EXPECT_THAT(error_as_nobody([&] { open(directory / "d", "files"); }),
              AllOf(StartsWith("io: "), HasSubstr(at("d/closed") + "/:")));
  EXPECT_THAT(error_as_nobody([&] { open(directory / "d/*/*", "files"); }),
              AllOf(StartsWith("io: "), HasSubstr(at("d/closed"))));
  EXPECT_THAT(error_as_nobody([&] { Samples(*open(directory / "closed", "files"), ids({0})); }),
              AllOf(StartsWith("io: "), HasSubstr(at("closed")), HasSubstr("the right to read it")));
}

TEST_F(FilesFaults, FileThatChangedItsSizeIsCorruptAndOneThatIsGoneIsNotFound) {
  for (const auto* name : {"gone", "grown", "pipe", "shrunk"}) directory.write(name, "12345");
  const auto source = open(directory.path(), "files");
  fs::remove(directory / "gone");
  directory.write("grown", "1234567");
  fs::remove(directory / "pipe");
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);  // nothing waits for it
  directory.write("shrunk", "123");
  EXPECT_THAT(reading(*source, {0}), is_error(not_found, {at("gone")}));
  EXPECT_THAT(reading(*source, {1}), is_error(corrupt, {at("grown"), "7 bytes now", "had 5"}));
  EXPECT_THAT(reading(*source, {2}), is_error(corrupt, {at("pipe"), "had 5"}));
  EXPECT_THAT(reading(*source, {3}),
              is_error(corrupt, {at("shrunk"), "3 bytes now", "had 5", "restore the file"}));
}

}  // namespace rota::test::files_test
