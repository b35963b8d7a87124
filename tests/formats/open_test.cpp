#include <sys/resource.h>

#include <set>

#include "formats/formats.hpp"
#include "formats/memory_storage.hpp"
#include "formats/python.hpp"

namespace rota::test::open_test {

using Open = PythonTest;

std::string first_field(const Source& source) { return source.fields()[0].name; }

TEST_F(Open, TakesHdf5FilesBySignatureWhateverTheirNameAndAfterAUserBlock) {
  const auto path = h5py(directory_, "a.dat", "f['x'] = np.arange(5)", "userblock_size=2048");
  EXPECT_EQ(first_field(*open(path)), "x");
  EXPECT_EQ(open(directory_.path())->size(), 5);
  EXPECT_EQ(open(directory_ / "*.dat")->size(), 5);
}

TEST_F(Open, TakesADirectoryOfUnknownKindsAsFiles) {
  directory_.write("a.jpg", "image");
  directory_.write("b.txt", "text");
  EXPECT_EQ(first_field(*open(directory_.path())), "data");
  EXPECT_EQ(open(directory_.path())->size(), 2);
}

// One that is foreign or damaged is not to make raw bytes of all others.
TEST_F(Open, RefusesADirectoryOfWhichSomeFilesAreOfAFormat) {
  h5py(directory_, "a.h5", "f['x'] = np.arange(5)");
  for (const auto& [name, text] : {std::pair{"b.txt", "text"}, {"a.md", "before"}}) {
    directory_.write(name, text);
    EXPECT_ERROR(open(directory_.path()), invalid_argument,
                 {"open " + directory_.path().string(), "named as hdf5", (directory_ / name).string(),
                  "does not begin so", "glob", "\"files\""});
    EXPECT_EQ(first_field(*open(directory_.path(), "files")), "data");
    fs::remove(directory_ / name);
  }
  directory_.write("b.txt", "text");
  EXPECT_EQ(first_field(*open(directory_ / "*.h5")), "x");
  EXPECT_EQ(first_field(*open(directory_.path(), "hdf5")), "x");
}

TEST_F(Open, SaysThatAFileIsDamagedThatIsNotWhatItIsNamedAs) {
  directory_.write("z.txt", "text");
  const std::string gzip("\x1F\x8B\b\0\0\0\0\0", 8);
  const std::string zstd("\x28\xB5\x2F\xFD\x24\x09", 6);
  using Named = std::pair<const char*, std::string>;
  for (const auto& [name, text] :
       {Named{"c.tar", "damaged"}, Named{"c.tgz", gzip}, Named{"c.tar.gz", gzip + "damaged"},
        Named{"c.tar.gz", "\x1F\x8B"}, Named{"c.tar.gz", ""}, Named{"c.tar.zst", zstd},
        Named{"c.tar.zst", zstd + "damaged"}, Named{"c.tar.zst", "damaged"}, Named{"c.tfrecord", "damaged"},
        Named{"c.npy", "damaged"}, Named{"c.h5", "damaged"}}) {
    const auto path = directory_.write(name, text);
    for (const auto& opened : {path, directory_.path()}) {
      EXPECT_ERROR(open(opened), corrupt, {path.string(), "byte ", "restore it"}) << text;
    }
    fs::remove(path);
  }
}

// They are whole.
TEST_F(Open, DoesNotTakeCompressedFilesOfOtherFormatsForDamaged) {
  preamble_ = "import gzip\n";
  expect_refused({Refused("open('a.tar.gz', 'wb').write(gzip.compress(b'text'))", invalid_argument,
                          {"a.tar.gz is named as tar", "does not begin so"}),
                  Refused("open('a.tfrecord.gz', 'wb').write(gzip.compress(b'text'))", invalid_argument,
                          {"a.tfrecord.gz is named as tfrecord", "does not begin so"}),
                  Refused("open('a.npy.gz', 'wb').write(gzip.compress(b'text'))", unsupported,
                          {"a.npy.gz", "compressed", "unpack it first"})},
                 [](const fs::path& path) { open(path); });
}

TEST_F(Open, NamesTheFormatThatItTakes) {
  directory_.write("a.jsonl", "1\n2\n");
  EXPECT_EQ(find_format(Catalog(directory_.path())), "lines");
  directory_.write("b/c.txt", "text");
  EXPECT_EQ(find_format(Catalog(directory_ / "b")), "files");
  EXPECT_THAT(formats(), AllOf(Contains("auto"), Contains("lines")));
}

TEST(FormatTable, HasAWholeRowOfEachFormat) {
  std::set<std::size_t> kinds;
  for (const internal::FormatEntry* format : internal::kFormats) {
    SCOPED_TRACE(format->name);
    EXPECT_TRUE(format->defaults != nullptr && format->open != nullptr);
    const Format defaults = format->defaults();
    EXPECT_TRUE(kinds.insert(defaults.index()).second) << "of the options of another";
    EXPECT_EQ(defaults.index() == 0, format->options[0].name == nullptr);
    const bool is_found = std::ranges::find(internal::kFoundFormats, format) != internal::kFoundFormats.end();
    EXPECT_EQ(is_found, format->begins != nullptr || format->are_named != nullptr);
    for (const std::string_view ending : format->endings) {
      EXPECT_TRUE(ending.empty() || (is_found && is_named_as(*format, "a" + std::string(ending)))) << ending;
    }
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<Format>);
  EXPECT_EQ(formats().size(), internal::kFormats.size() + 1);
}

// They are compared on all ranks, and set from Python.
TEST(FormatTable, KnowsEachOptionByItsOwnName) {
  for (const internal::FormatEntry* format : internal::kFormats) {
    Format options = format->defaults();
    std::set<std::string> names;
    std::set<void*> members;
    for (const auto& [name, in] : format->options) {
      if (name == nullptr) break;
      EXPECT_TRUE(names.insert(name).second) << name;
      std::visit([&](auto* member) { EXPECT_TRUE(members.insert(member).second) << name; }, in(options));
    }
  }
}

TEST_F(Open, KeepsNoMoreFilesOpenThanHalfOfWhatTheProcessMayHave) {
  for (int i = 0; i < 60; ++i) directory_.write(fmt::format("{:02}.jsonl", i), "1\n");
  const auto open_now = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  struct rlimit former {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &former), 0);
  struct rlimit few = former;
  few.rlim_cur = static_cast<rlim_t>(open_now()) + 600;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<Mixture::Part> datasets;
  for (int k = 0; k < 12; ++k) datasets.push_back({.source = open(directory_.path())});
  EXPECT_LE(open_now(), static_cast<std::int64_t>(few.rlim_cur) / 2 + 12 * 8);
  Loader loader({.datasets = datasets}, {.global_batch_size = 32, .workers = 2});
  std::int64_t read = 0;
  for (const Batch& batch : loader) read += batch.real();
  EXPECT_GE(read, 12 * 50);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &former), 0);
}

TEST_F(Open, TakesNoArrayForLinesOrTokens) {
  write("import numpy as np\nnp.save('a.npy', np.arange(40))");
  for (const auto* format : {"lines", "tokens"}) {
    EXPECT_ERROR(open(directory_ / "a.npy", format), invalid_argument,
                 {"a.npy as", format, "leave the format"});
  }
}

TEST_F(Open, FindsFormatsByNamesInCapitals) {
  directory_.write("a.JSONL", "1\n2\n");
  EXPECT_EQ(find_format(Catalog(directory_.path())), "lines");
  directory_.write("b/c.TAR", "text");
  EXPECT_ERROR(open(directory_ / "b"), corrupt, {"c.TAR", "it is named as tar"});
}

TEST_F(Open, TakesNoFilesOfOtherFormatsForSamples) {
  preamble_ = "import bz2\n";
  expect_refused({Refused("open('a.parquet', 'wb').write(b'PAR1')", unsupported, {"a.parquet", "convert it"}),
                  Refused("open('a.Zip', 'wb').write(b'PK')", unsupported, {"a.Zip", "(\"files\")"}),
                  Refused("open('a.idx', 'wb').close()\nopen('a.bin', 'wb').close()", unsupported,
                          {"a.idx", "\"megatron\""}),
                  Refused("open('a.npz', 'wb').write(b'PK')", unsupported, {"a.npz", "say so (\"npz\""}),
                  Refused("open('a.csv.bz2', 'wb').write(bz2.compress(b'text'))", unsupported,
                          {"a.csv.bz2: it is compressed", "unpack it"})},
                 [](const fs::path& path) { open(path); });
  directory_.write("b/a.parquet", "PAR1");
  EXPECT_EQ(open(directory_ / "b", "files")->size(), 1);
}

// Hidden, or left by programs; unless they are asked for, or named one by one.
TEST_F(Open, LeavesOutNamesThatNoDatasetHas) {
  for (const auto* name : {".DS_Store", "._a.jpg", ".nfs01", ".ipynb_checkpoints/a.jpg", "a.jpg~", "#a.jpg#",
                           "Thumbs.db", "desktop.ini", "_SUCCESS", "_metadata", ".a.jpg.crc", "a.crc",
                           "__MACOSX/a.jpg", "b/.git/x", "a.jpg", "b/c.jpg"}) {
    directory_.write(name, "x");
  }
  const Catalog catalog(directory_.path());
  EXPECT_EQ(catalog.size(), 2);
  EXPECT_EQ(files_of(catalog).left_out(), 14);
  EXPECT_EQ(Catalog((directory_ / "*").string()).size(), 1);
  EXPECT_EQ(Catalog(directory_ / "_SUCCESS").size(), 1);
  EXPECT_EQ(Catalog(directory_.path(), {.all_names = true}).size(), 16);
  EXPECT_ERROR(Catalog((directory_ / "_*").string()), not_found, {"hidden or left-over", "all_names"});
  const TemporaryDirectory saved;
  Catalog(directory_.path(), {.all_names = true}).save(saved / "all.rota");
  EXPECT_EQ(Catalog(saved / "all.rota").size(), 16) << "as it was made";
  const auto stored = std::make_shared<MemoryStorage>();
  for (const auto* name : {"d/.x", "d/a.jpg", "d/_SUCCESS", "d/.y/a.jpg"})
    stored->files[name] = {.bytes = "x"};
  EXPECT_EQ(Catalog("memory://d", {.storages = {{"memory", stored}}}).size(), 1);
  EXPECT_EQ(Catalog("memory://d/.x", {.storages = {{"memory", stored}}}).size(), 1);
}

TEST_F(Open, TakesListsOfPathsAndWordsInBraces) {
  for (const auto* name : {"b", "a", "c"})
    directory_.write(std::string(name) + ".jsonl", std::string(name) + "\n");
  const Catalog listed = Catalog::from_paths({at("b.jsonl"), at("a.jsonl")});
  EXPECT_EQ(contents(*open(listed)), (Contents{{"b"}, {"a"}}));
  EXPECT_EQ(contents(*open(at("{b,c}.jsonl"))), (Contents{{"b"}, {"c"}}));
  EXPECT_ERROR(Catalog::from_paths({}), not_found, {"list of paths", "no files"});
  EXPECT_ERROR(Catalog::from_paths({at("a.jsonl"), at("a.jsonl")}), invalid_argument, {"on line 1 already"});
  EXPECT_ERROR(Catalog::from_paths({at("a.jsonl"), "s3://b/x"}), invalid_argument, {"has another scheme"});
  EXPECT_ERROR(Catalog::from_paths({at("none")}), io, {"none"});
  EXPECT_ERROR(listed.save(at("x.rota")), unsupported, {"a manifest"});
  EXPECT_ERROR(Catalog(at("{a,a}.jsonl")), invalid_argument, {"twice"});
  directory_.write("{a,b}.jsonl", "itself\n");
  EXPECT_EQ(contents(*open(at("{a,b}.jsonl"))), (Contents{{"itself"}}));
}

}  // namespace rota::test::open_test
