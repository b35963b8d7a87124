#include "formats/h5py.hpp"
#include "formats/python.hpp"
#include "source/reading.hpp"
#include "test.hpp"

namespace rota::test::open_test {

std::string first_field(const Source& source) { return source.fields()[0].name; }

TEST(Open, TakesHdf5FilesBySignatureWhateverTheirName) {
  const TemporaryDirectory directory;
  const auto path = h5py(directory, "a.dat", "f['x'] = np.arange(5)");
  EXPECT_EQ(first_field(*open(path)), "x");
  EXPECT_EQ(open(directory.path())->size(), 5);
  EXPECT_EQ(open(directory / "*.dat")->size(), 5);
}

TEST(Open, FindsTheSignatureAfterAUserBlock) {
  const TemporaryDirectory directory;
  EXPECT_EQ(first_field(*open(h5py(directory, "a.h5", "f['x'] = [1]", "userblock_size=2048"))), "x");
}

TEST(Open, TakesADirectoryOfUnknownKindsAsFiles) {
  const TemporaryDirectory directory;
  directory.write("a.jpg", "image");
  directory.write("b.txt", "text");
  EXPECT_EQ(first_field(*open(directory.path())), "data");
  EXPECT_EQ(open(directory.path())->size(), 2);
}

// One that is foreign or damaged is not to make raw bytes of all others.
TEST(Open, RefusesADirectoryOfWhichSomeFilesAreOfAFormat) {
  const TemporaryDirectory directory;
  h5py(directory, "a.h5", "f['x'] = np.arange(5)");
  for (const auto& [name, text] : {std::pair{"b.txt", "text"}, {"a.md", "before"}}) {
    directory.write(name, text);
    EXPECT_THAT(error_of([&] { open(directory.path()); }),
                is_error(ErrorCode::invalid_argument,
                         {"open " + directory.path().string(), "named as hdf5", (directory / name).string(),
                          "no such file", "glob", "\"files\""}));
    EXPECT_EQ(first_field(*open(directory.path(), "files")), "data");
    std::filesystem::remove(directory / name);
  }
  directory.write("b.txt", "text");
  EXPECT_EQ(first_field(*open(directory / "*.h5")), "x");
}

TEST(Open, SaysThatAFileIsDamagedThatIsNotWhatItIsNamedAs) {
  const TemporaryDirectory directory;
  directory.write("z.txt", "text");
  const std::string gzip("\x1F\x8B\b\0\0\0\0\0", 8);
  const std::string zstd("\x28\xB5\x2F\xFD\x24\x09", 6);
  for (const auto& [name, text] : {std::pair{"c.tar", std::string("damaged")},
                                   {"c.tgz", gzip},
                                   {"c.tar.gz", gzip + "damaged"},
                                   {"c.tar.gz", "\x1F\x8B"},
                                   {"c.tar.gz", ""},
                                   {"c.tar.zst", zstd},
                                   {"c.tar.zst", zstd + "damaged"},
                                   {"c.tar.zst", "damaged"},
                                   {"c.tfrecord", "damaged"},
                                   {"c.npy", "damaged"},
                                   {"c.h5", "damaged"}}) {
    const auto path = directory.write(name, text);
    for (const auto& opened : {path, directory.path()}) {
      EXPECT_THAT(error_of([&] { open(opened); }),
                  is_error(ErrorCode::corrupt, {path.string(), "byte ", "restore it"}))
          << text;
    }
    std::filesystem::remove(path);
  }
}

// It is whole, and yet no tar file.
TEST(Open, DoesNotTakeACompressedFileOfAnotherFormatForDamaged) {
  const TemporaryDirectory directory;
  python(directory, "import gzip\nopen('a.tar.gz', 'wb').write(gzip.compress(b'text'))");
  EXPECT_THAT(error_of([&] { open(directory.path()); }),
              is_error(ErrorCode::invalid_argument, {"a.tar.gz is named as tar", "no such file"}));
}

TEST(Open, SaysWhichFormatsMayBeCompressed) {
  const TemporaryDirectory directory;
  python(directory, "import gzip\nopen('a.tfrecord.gz', 'wb').write(gzip.compress(b'text'))");
  EXPECT_THAT(error_of([&] { open(directory.path()); }),
              is_error(ErrorCode::unsupported, {"a.tfrecord.gz", "compressed", "unpack it first"}));
}

TEST(Open, TakesTheFormatThatIsForced) {
  const TemporaryDirectory directory;
  const auto path = h5py(directory, "a.h5", "f['x'] = np.arange(5)");
  directory.write("b.txt", "text");
  EXPECT_EQ(first_field(*open(path, "files")), "data");
  EXPECT_EQ(first_field(*open(directory.path(), "hdf5")), "x");
}

TEST(Open, NamesTheFormatThatItTakes) {
  const TemporaryDirectory directory;
  directory.write("a.jsonl", "1\n2\n");
  EXPECT_EQ(find_format(Catalog(directory.path())), "lines");
  directory.write("b/c.txt", "text");
  EXPECT_EQ(find_format(Catalog(directory / "b")), "files");
  EXPECT_THAT(formats(), testing::AllOf(testing::Contains("auto"), testing::Contains("lines")));
}

TEST(Open, TellsOfFilesThatItLooksIntoAndOfNoOthers) {
  const TemporaryDirectory directory;
  const TemporaryDirectory saved;
  directory.write("a.jsonl", "1\n");
  directory.write("b.jsonl", "1\n");
  const Catalog before(directory.path());
  EXPECT_EQ(open(before)->size(), 2);
  before.save(saved / "catalog");
  directory.write("b.jsonl", "1\n2\n");
  std::int64_t looked_into = 0;
  const Catalog after(saved / "catalog", {.progress = [&](const Progress& progress) {
                        if (progress.task == "index files") looked_into = progress.total;
                      }});
  EXPECT_EQ(open(after)->size(), 3);
  EXPECT_EQ(looked_into, 1);
}

TEST(Open, RefusesAnUnknownFormat) {
  EXPECT_THAT(error_of([] { open("x", "zarr"); }),
              is_error(ErrorCode::invalid_argument, {"open x", "\"zarr\"", "\"files\"", "\"hdf5\""}));
}

TEST(Open, SaysWhichPathIsMissing) {
  EXPECT_THAT(error_of([] { open("/no/where"); }), is_error(ErrorCode::not_found, {"open /no/where"}));
}

}  // namespace rota::test::open_test
