#include "formats/h5py.hpp"
#include "source/reading.hpp"
#include "test.hpp"

namespace rota::test::hdf5_faults_test {

class Hdf5Faults : public testing::Test {
 public:
  // What opening a file made by `script` throws.
  [[nodiscard]] std::optional<Error> opening(std::string_view script, const Hdf5Options& options = {}) const {
    const auto path = h5py(directory, "a.h5", script);
    return error_of([&] { open_hdf5(path, options); });
  }
  [[nodiscard]] std::string file() const { return (directory / "a.h5").string(); }

  TemporaryDirectory directory;
};

TEST_F(Hdf5Faults, MissingFileIsNotFound) {
  EXPECT_THAT(error_of([&] { open_hdf5(directory / "a.h5"); }), is_error(ErrorCode::not_found, {file()}));
}

TEST_F(Hdf5Faults, DirectoryWithoutHdf5FilesIsNamedWithWhatIsInIt) {
  directory.write("a.txt", "text");
  EXPECT_THAT(error_of([&] { open_hdf5(directory.path()); }),
              is_error(ErrorCode::corrupt, {directory / "a.txt", "not an HDF5 file"}));
}

TEST_F(Hdf5Faults, FileOfAnotherFormatIsCorrupt) {
  directory.write("a.h5", "this is text, however it is called");
  EXPECT_THAT(error_of([&] { open_hdf5(directory.path()); }),
              is_error(ErrorCode::corrupt, {file(), "not an HDF5 file"}));
}

TEST_F(Hdf5Faults, TruncatedFileIsCorrupt) {
  const auto path = h5py(directory, "a.h5", "f['x'] = np.arange(10000)");
  for (const std::uintmax_t bytes : {fs::file_size(path) - 1, fs::file_size(path) / 2, std::uintmax_t{100}}) {
    fs::resize_file(path, bytes);
    EXPECT_THAT(error_of([&] { open_hdf5(path); }),
                is_error(ErrorCode::corrupt, {file(), "truncated", "again"}));
  }
}

TEST_F(Hdf5Faults, FileTruncatedWhileOpenIsCorruptAtTheByte) {
  const auto path = h5py(directory, "a.h5", "f['x'] = np.arange(10000)");
  const auto source = open_hdf5(path);
  fs::resize_file(path, 4096);
  EXPECT_THAT(error_of([&] { Samples(*source, ids({9999})); }),
              is_error(ErrorCode::corrupt, {file(), "byte ", "cut short"}));
}

TEST_F(Hdf5Faults, DamagedChunkIsCorruptAtTheByte) {
  const auto path = h5py(directory, "a.h5", R"(
d = f.create_dataset('x', (4,), 'i8', chunks=(4,), compression='gzip')
d.id.write_direct_chunk((0,), b'no zlib stream')
)");
  EXPECT_THAT(
      error_of([&] { Samples(*open_hdf5(path), ids({1})); }),
      is_error(ErrorCode::corrupt, {file(), "\"/x\"", "byte ", "chunk of 14 bytes cannot be decoded"}));
}

// Leaves of the tree that is the index of 10,000 chunks lose their signatures, one at a time.
TEST_F(Hdf5Faults, ChunksThatCannotBeLookedUpAreNotTakenForUnwrittenOnes) {
  const auto path = h5py(directory, "a.h5", "f.create_dataset('x', data=np.arange(100000), chunks=(10,))");
  std::string bytes(fs::file_size(path), '\0');
  std::ifstream(path, std::ios::binary).read(bytes.data(), std::ssize(bytes));
  const std::string leaf("TREE\x01\0", 6);
  int leaves = 0;
  for (auto at = bytes.find(leaf); at != std::string::npos; at = bytes.find(leaf, at + 1)) {
    if (leaves++ % 20 != 0) continue;
    std::string damaged = bytes;
    damaged[at] = 'X';
    std::ofstream(path, std::ios::binary | std::ios::trunc) << damaged;
    const auto error = error_of([&] { open_hdf5(path); });
    ASSERT_TRUE(error) << "leaf " << leaves;
    EXPECT_THAT(error->what(), testing::HasSubstr("open " + file() + ": dataset \"/x\""));
  }
  EXPECT_GT(leaves, 40);
}

TEST_F(Hdf5Faults, ChunkOfTheWrongSizeIsCorrupt) {
  for (const auto* data : {"zlib.compress(bytes(31))", "zlib.compress(bytes(33))"}) {
    const auto path =
        h5py(directory, "a.h5",
             "import zlib\nd = f.create_dataset('x', (4,), 'i8', chunks=(4,), compression='gzip')\n"
             "d.id.write_direct_chunk((0,), " +
                 std::string(data) + ")");
    EXPECT_THAT(error_of([&] { Samples(*open_hdf5(path), ids({1})); }),
                is_error(ErrorCode::corrupt, {"\"/x\""}));
  }
}

TEST_F(Hdf5Faults, MissingDatasetIsNotFoundAmongThoseThereAre) {
  EXPECT_THAT(opening("f['x'] = [1]\nf['g/y'] = [1]", {.datasets = {"/z"}}),
              is_error(ErrorCode::not_found, {file(), "no dataset \"/z\"", "\"/g/y\", \"/x\""}));
  EXPECT_THAT(opening("f['x'] = [1]", {.datasets = {"/g/h/z"}}),
              is_error(ErrorCode::not_found, {"\"/g/h/z\""}));
  EXPECT_THAT(opening("f['g/y'] = [1]", {.datasets = {"/g"}}), is_error(ErrorCode::not_found, {"\"/g\""}));
}

TEST_F(Hdf5Faults, LongListsOfDatasetsAreCutShort) {
  EXPECT_THAT(opening("for i in range(25): f['d%02d' % i] = [1]", {.datasets = {"/z"}}),
              is_error(ErrorCode::not_found, {"\"/d19\" and 5 more"}));
}

TEST_F(Hdf5Faults, FileWithoutNumbersIsNotFound) {
  EXPECT_THAT(opening("f['s'] = ['text']"),
              is_error(ErrorCode::not_found, {file(), "no dataset of numbers", "\"/s\""}));
  EXPECT_THAT(opening(""), is_error(ErrorCode::not_found, {file(), "no dataset at all"}));
}

TEST_F(Hdf5Faults, UnequalExtentsAreNamed) {
  EXPECT_THAT(
      opening("f['x'] = np.arange(5)\nf['y'] = np.arange(6)"),
      is_error(ErrorCode::invalid_argument, {file(), "\"/x\" holds 5", "\"/y\" holds 6", "datasets"}));
}

TEST_F(Hdf5Faults, ScalarHasNoRows) {
  EXPECT_THAT(opening("f['x'] = 5", {.datasets = {"x"}}),
              is_error(ErrorCode::invalid_argument, {file(), "\"/x\"", "scalar"}));
}

TEST_F(Hdf5Faults, DatasetNamedTwiceIsRefused) {
  EXPECT_THAT(opening("f['x'] = [5]", {.datasets = {"x", "/x"}}),
              is_error(ErrorCode::invalid_argument, {"Hdf5Options::datasets", "\"x\" is named twice"}));
  EXPECT_THAT(opening("f['x'] = [5]", {.datasets = {""}}),
              is_error(ErrorCode::invalid_argument, {"no name"}));
}

struct Unsupported {
  const char* script;
  std::string what;
};

TEST_F(Hdf5Faults, OtherTypesAreUnsupported) {
  const std::vector<Unsupported> cases = {
      {"f['x'] = np.arange(3, dtype='>i4')", "big-endian integers of 4 bytes"},
      {"f['x'] = np.arange(3, dtype='>f8')", "big-endian floats of 8 bytes"},
      {"f['x'] = ['a', 'b']", "strings"},
      {"f['x'] = np.zeros(3, dtype=[('a', 'i4')])", "compounds"},
      {"f['x'] = np.zeros(3, dtype='c8')", "compounds"},
      {"f['x'] = np.zeros(3, dtype='g')", "floats of 16 bytes"},
      {"f.create_dataset('x', (3,), h5py.vlen_dtype('i4'))", "variable-length"},
      {"f.create_dataset('x', (3,), h5py.enum_dtype({'A': 0, 'B': 1}, 'i1'))", "enumeration"},
  };
  for (const Unsupported& one : cases) {
    EXPECT_THAT(opening(one.script, {.datasets = {"x"}}),
                is_error(ErrorCode::unsupported, {file(), "\"/x\"", one.what, "rewrite"}));
  }
}

TEST_F(Hdf5Faults, OtherFiltersAreUnsupported) {
  const std::vector<Unsupported> cases = {
      {"f.create_dataset('x', data=np.arange(9), chunks=(3,), fletcher32=True)", "fletcher32"},
      {"f.create_dataset('x', data=np.arange(9), chunks=(3,), compression='lzf')", "lzf"},
      {"f.create_dataset('x', data=np.arange(9), chunks=(3,), scaleoffset=4)", "scaleoffset"},
  };
  for (const Unsupported& one : cases) {
    EXPECT_THAT(opening(one.script),
                is_error(ErrorCode::unsupported, {file(), "\"/x\"", one.what, "rewrite"}));
  }
}

TEST_F(Hdf5Faults, DataKeptElsewhereAreUnsupported) {
  EXPECT_THAT(opening("f.create_dataset('x', (3,), 'i4', external=[('b.raw', 0, 12)])"),
              is_error(ErrorCode::unsupported, {file(), "\"/x\"", "in other files"}));
  EXPECT_THAT(
      opening("v = h5py.VirtualLayout((3,), 'i4')\nv[:] = h5py.VirtualSource('b.h5', 'x', shape=(3,))\n"
              "f.create_virtual_dataset('x', v)"),
      is_error(ErrorCode::unsupported, {file(), "\"/x\"", "virtual"}));
}

TEST_F(Hdf5Faults, LinksIntoOtherFilesAreUnsupported) {
  h5py(directory, "other.hdf", "f['g/x'] = np.arange(5)\nf['t_offsets'] = [0, 2]");
  for (const auto* link :
       {"f['x'] = h5py.ExternalLink('other.hdf', '/g/x')",
        "f['x'] = h5py.ExternalLink('nowhere.hdf', '/g/x')",
        "f['x'] = np.arange(2); f['x_offsets'] = h5py.ExternalLink('other.hdf', '/t_offsets')"}) {
    EXPECT_THAT(opening(link, {.datasets = {"x"}}),
                is_error(ErrorCode::unsupported, {file(), "external link", "another file"}))
        << link;
  }
}

TEST_F(Hdf5Faults, OffsetsThatAreNoneAreCorrupt) {
  const std::vector<Unsupported> cases = {{"[1, 2, 4]", "begins with 1"},
                                          {"[0, 3, 2, 4]", "falls from 3 to 2 at 1"},
                                          {"[0, 2, 3]", "ends with 3"},
                                          {"[0, 2, 5]", "ends with 5"},
                                          {"np.zeros(0, 'i8')", "is empty"}};
  for (const Unsupported& one : cases) {
    EXPECT_THAT(opening("f['t'] = np.arange(4)\nf['t_offsets'] = " + std::string(one.script)),
                is_error(ErrorCode::corrupt, {file(), "\"/t_offsets\"", one.what, "4 rows"}));
  }
}

TEST_F(Hdf5Faults, FilesWithOtherFieldsCannotBeJoined) {
  h5py(directory, "a.h5", "f['x'] = np.arange(5)");
  h5py(directory, "b.h5", "f['x'] = np.arange(5.0)");
  EXPECT_THAT(
      error_of([&] { open_hdf5(directory.path()); }),
      is_error(ErrorCode::invalid_argument, {"b.h5", "has \"x\" float64[]", file() + " has \"x\" int64[]"}));
  h5py(directory, "b.h5", "f['y'] = np.arange(5)");
  EXPECT_THAT(error_of([&] { open_hdf5(directory.path()); }),
              is_error(ErrorCode::not_found, {"b.h5", "no dataset \"/x\"", "\"/y\""}));
}

TEST_F(Hdf5Faults, IdsPastTheEndAreOutOfRange) {
  const auto source = open_hdf5(h5py(directory, "a.h5", "f['x'] = np.arange(5)"));
  EXPECT_THAT(error_of([&] {
                Samples(*source, ids({0, 5}));
              }),
              is_error(ErrorCode::out_of_range, {"sample 5"}));
  EXPECT_EQ(source->where({5}), "");
}

}  // namespace rota::test::hdf5_faults_test
