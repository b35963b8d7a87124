#include <sys/socket.h>
#include <sys/un.h>

#include "source/reading.hpp"
#include "test.hpp"

namespace rota::test::files_test {

std::vector<std::string> paths(const Source& source) {
  std::vector<std::string> result;
  for (const SampleId id : all_ids(source)) result.push_back(source.where(id));
  return result;
}

class Files : public testing::Test {
 public:
  [[nodiscard]] std::string at(std::string_view name) const { return (directory / name).string(); }

  TemporaryDirectory directory;
};

TEST_F(Files, HaveOneRaggedFieldOfBytes) {
  directory.write("a", "xyz");
  const auto source = open_files(directory.path());
  EXPECT_THAT(source->fields(), ElementsAre(Field{"data", DType::uint8, {}, true}));
}

TEST_F(Files, AreOrderedByTheBytesOfTheirWholeRelativePath) {
  for (const auto* name : {"b", "a/z", "a-b", "a", "a.txt", "\xC3\xA9", "Z", "c/d/e"}) {
    if (std::string_view(name) != "a") directory.write(name, "1");
  }
  EXPECT_THAT(paths(*open_files(directory.path())),
              ElementsAre(at("Z"), at("a-b"), at("a.txt"), at("a/z"), at("b"), at("c/d/e"), at("\xC3\xA9")));
}

TEST_F(Files, AreReadWholeAtAnyIdsInAnyOrder) {
  std::mt19937_64 random(1);
  std::vector<std::string> contents;
  for (int i = 0; i < 1000; ++i) {
    contents.emplace_back(random() % 5000, static_cast<char>('a' + i % 26));
    directory.write("d" + std::to_string(i % 7) + "/" + std::to_string(1000 + i), contents.back());
  }
  const auto source = open_files(directory.path());
  ASSERT_EQ(source->size(), 1000);
  const Ids wanted = random_ids(*source, 500, random);
  const Samples samples(*source, wanted);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const int number = std::stoi(fs::path(source->where(wanted[i])).filename().string()) - 1000;
    ASSERT_EQ(samples.sample(0, i), contents[static_cast<std::size_t>(number)]);
  }
}

TEST_F(Files, MayBeEmpty) {
  directory.write("a", "");
  directory.write("b", "b");
  directory.write("c", "");
  const Samples samples(*open_files(directory.path()), ids({2, 1, 0}));
  EXPECT_EQ(samples.sample(0, 0) + samples.sample(0, 1) + samples.sample(0, 2), "b");
}

TEST_F(Files, MayHaveAnyBytesInTheirNames) {
  const std::vector<std::string> names = {"a b", "new\nline", "not\xFF\xFEutf8", "tab\t*?[", ".hidden"};
  for (const std::string& name : names) directory.write("d/" + name, name);
  const auto source = open_files(directory.path());
  const Samples samples(*source, all_ids(*source));
  std::vector<std::string> found;
  for (std::size_t i = 0; i < names.size(); ++i) found.push_back(samples.sample(0, i));
  EXPECT_THAT(found, testing::UnorderedElementsAreArray(names));
}

TEST_F(Files, AreFoundThroughSymbolicLinks) {
  const TemporaryDirectory elsewhere;
  elsewhere.write("x/file", "linked");
  fs::create_directories(directory.path());
  fs::create_directory_symlink(elsewhere / "x", directory / "dir");
  fs::create_symlink(elsewhere / "x/file", directory / "file");
  const auto source = open_files(directory.path());
  EXPECT_THAT(paths(*source), ElementsAre(at("dir/file"), at("file")));
  EXPECT_EQ(Samples(*source, ids({1})).sample(0, 0), "linked");
}

TEST_F(Files, MayBeReachedByTwoLinksThatMakeNoCycle) {
  directory.write("real/a", "1");
  fs::create_directory_symlink("real", directory / "one");
  fs::create_directory_symlink("real", directory / "two");
  EXPECT_EQ(open_files(directory.path())->size(), 3);
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
  EXPECT_THAT(paths(*open_files(directory.path())), ElementsAre(at("a")));
  EXPECT_THAT(paths(*open_files(at("*"))), ElementsAre(at("a")));
}

TEST_F(Files, AreNamedByAGlobAsInAShell) {
  for (const auto* name : {"x1/a.bin", "x1/b.txt", "x2/a.bin", "y/a.bin", "x3/sub.bin/deep"}) {
    directory.write(name, name);
  }
  const auto source = open_files(at("x?/*.bin"));
  EXPECT_THAT(paths(*source), ElementsAre(at("x1/a.bin"), at("x2/a.bin")));
  EXPECT_EQ(Samples(*source, ids({1})).sample(0, 0), "x2/a.bin");
}

TEST_F(Files, OfAGlobHaveNamesRelativeToItsFixedDirectory) {
  const TemporaryDirectory other;
  for (const TemporaryDirectory* one : {static_cast<const TemporaryDirectory*>(&directory), &other}) {
    one->write("d/a1", "1");
    one->write("d/a2", "2");
  }
  EXPECT_EQ(open_files(at("d/a*"))->fingerprint(), open_files((other / "d/a[12]").string())->fingerprint());
  EXPECT_EQ(open_files(at("d/a*"))->fingerprint(), open_files(at("d"))->fingerprint());
  EXPECT_NE(open_files(at("*/a*"))->fingerprint(), open_files(at("d"))->fingerprint());
}

TEST_F(Files, WhosePathLooksLikeAGlobAreTakenByName) {
  directory.write("data[1]/a", "1");
  directory.write("data[1]/b*", "2");
  EXPECT_EQ(open_files(at("data[1]"))->size(), 2);
  EXPECT_THAT(paths(*open_files(at("data[1]/b*"))), ElementsAre(at("data[1]/b*")));
}

TEST_F(Files, MayBeOneAlone) {
  directory.write("a", "1");
  directory.write("b", "22");
  const auto source = open_files(at("b"));
  EXPECT_THAT(paths(*source), ElementsAre(at("b")));
  EXPECT_EQ(Samples(*source, ids({0})).sample(0, 0), "22");
}

TEST_F(Files, HaveTheSameFingerprintWhereverTheyLie) {
  const TemporaryDirectory other;
  directory.write("d/a", "123");
  other.write("d/a", "456");
  EXPECT_EQ(open_files(directory.path())->fingerprint(), open_files(other.path() / "")->fingerprint());
}

TEST_F(Files, ChangeTheirFingerprintWithNamesSizesAndNumber) {
  directory.write("a", "123");
  const Fingerprint first = open_files(directory.path())->fingerprint();
  directory.write("a", "1234");
  const Fingerprint longer = open_files(directory.path())->fingerprint();
  fs::rename(directory / "a", directory / "b");
  const Fingerprint renamed = open_files(directory.path())->fingerprint();
  directory.write("c", "");
  const Fingerprint more = open_files(directory.path())->fingerprint();
  EXPECT_NE(first, longer);
  EXPECT_NE(longer, renamed);
  EXPECT_NE(renamed, more);
}

TEST_F(Files, KnownByTheirNamesMayHaveAnySizeWhenTheyAreRead) {
  directory.write("a", "123");
  directory.write("d/b", "");
  const CatalogOptions by_name{.change_detection = ChangeDetection::by_name};
  const auto source = open_files(Catalog(directory.path(), by_name));
  EXPECT_NE(source->fingerprint(), open_files(directory.path())->fingerprint());
  directory.write("a", "another");
  EXPECT_EQ(open_files(Catalog(directory.path(), by_name))->fingerprint(), source->fingerprint());
  const Samples samples(*source, ids({1, 0}));
  EXPECT_EQ(samples.sample(0, 0), "");
  EXPECT_EQ(samples.sample(0, 1), "another");
}

TEST_F(Files, KnownByTheirNamesAreOnlyRegularOnes) {
  directory.write("a", "1");
  directory.write("d/b", "2");
  EXPECT_THAT(paths(*open_files(Catalog(at("*"), {.change_detection = ChangeDetection::by_name}))),
              ElementsAre(at("a")));
}

TEST_F(Files, AreListedAlikeByAnyNumberOfThreads) {
  for (int i = 0; i < 2000; ++i)
    directory.write("f" + std::to_string(i), std::string(static_cast<std::size_t>(i % 100), 'x'));
  const Fingerprint alone = open_files(Catalog(directory.path(), {.listing_threads = 1}))->fingerprint();
  EXPECT_EQ(open_files(Catalog(directory.path(), {.listing_threads = 7}))->fingerprint(), alone);
}

TEST_F(Files, AreReadByManyThreadsAtOnce) {
  for (int i = 0; i < 200; ++i)
    directory.write(std::to_string(1000 + i), std::string(static_cast<std::size_t>(i) * 20, 'a'));
  const auto source = open_files(directory.path());
  std::vector<int> wrong(8, 0);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < wrong.size(); ++t) {
      threads.emplace_back([&, t] {
        std::mt19937_64 random(t);
        const Ids wanted = random_ids(*source, 1000, random);
        const Samples samples(*source, wanted);
        for (std::size_t i = 0; i < wanted.size(); ++i) {
          wrong[t] +=
              samples.sample(0, i) != std::string(static_cast<std::size_t>(wanted[i].value) * 20U, 'a');
        }
      });
    }
  }
  EXPECT_THAT(wrong, testing::Each(0));
}

}  // namespace rota::test::files_test
