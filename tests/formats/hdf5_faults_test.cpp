#include "formats/python.hpp"

namespace rota::test::hdf5_faults_test {

struct Fault {
  std::string script;  // that makes the file
  std::vector<std::string> words;
  std::vector<std::string> datasets = {};
};

class Hdf5Faults : public PythonTest {
 protected:
  // Opening each of the files is this error, which says its words and names the file.
  void expect_refused(ErrorCode code, std::vector<Fault> faults) const {
    std::vector<std::string> scripts;
    for (const Fault& fault : faults) scripts.push_back(fault.script);
    const auto directories = h5py_each(scripts);
    for (std::size_t i = 0; i < faults.size(); ++i) {
      faults[i].words.push_back(directories[i] / "a.h5");
      EXPECT_ERROR(open(directories[i] / "a.h5", Hdf5Options{.datasets = faults[i].datasets}), code,
                   faults[i].words)
          << faults[i].script;
    }
  }
};

TEST_F(Hdf5Faults, MissingFileIsNotFoundAndOneOfAnotherFormatIsCorrupt) {
  EXPECT_ERROR(open(at("a.h5"), "hdf5"), not_found, {at("a.h5")});
  for (const char* name : {"b.txt", "a.h5"}) {
    directory_.write(name, "this is text, however it is called");
    EXPECT_ERROR(open(directory_.path(), "hdf5"), corrupt, {at(name), "not an HDF5 file"});
  }
}

TEST_F(Hdf5Faults, TruncatedFileIsCorruptWhetherItIsOpenOrNot) {
  const auto source = open_h5("f['x'] = np.arange(10000)");
  fs::resize_file(at("a.h5"), 4096);
  EXPECT_THAT(reading(*source, {9999}), is_error(corrupt, {at("a.h5"), "byte ", "cut short"}));
  EXPECT_ERROR(open(at("a.h5"), "hdf5"), corrupt, {at("a.h5"), "truncated", "again"});
}

TEST_F(Hdf5Faults, DamagedChunkIsCorruptAtTheByte) {
  const std::string chunk = R"(
import zlib
d = f.create_dataset('x', (4,), 'i8', chunks=(4,), compression='gzip')
d.id.write_direct_chunk((0,), )";
  const auto directories = h5py_each({chunk + "b'no zlib stream')", chunk + "zlib.compress(bytes(31)))",
                                      chunk + "zlib.compress(bytes(33)))"});
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string what = i == 0 ? "byte " : "",
                      cannot = i == 0 ? "chunk of 14 bytes cannot be decoded" : "";
    EXPECT_ERROR(Samples(*open(directories[i], "hdf5"), ids({1})), corrupt,
                 {directories[i] / "a.h5", "\"/x\"", what, cannot});
  }
}

// Leaves of the tree that is the index of 10,000 chunks lose their signatures, one at a time.
TEST_F(Hdf5Faults, ChunksThatCannotBeLookedUpAreNotTakenForUnwrittenOnes) {
  const auto path = h5py(directory_, "a.h5", "f.create_dataset('x', data=np.arange(100000), chunks=(10,))");
  const std::string bytes = read_file(path);
  const std::string leaf("TREE\x01\0", 6);
  int leaves = 0;
  for (auto at = bytes.find(leaf); at != std::string::npos; at = bytes.find(leaf, at + 1)) {
    if (leaves++ % 20 != 0) continue;
    std::string damaged = bytes;
    damaged[at] = 'X';
    write_file(path, damaged);
    const auto error = error_of([&] { open(path, "hdf5"); });
    ASSERT_TRUE(error) << "leaf " << leaves;
    EXPECT_THAT(error->what(), HasSubstr("open " + path.string() + ": dataset \"/x\""));
  }
  EXPECT_GT(leaves, 40);
}

TEST_F(Hdf5Faults, DatasetsThatAreMissingAreNamedWithThoseThereAre) {
  expect_refused(not_found,
                 {{"f['x'] = [1]\nf['g/y'] = [1]", {"no dataset \"/z\"", "\"/g/y\", \"/x\""}, {"/z"}},
                  {"f['x'] = [1]", {"\"/g/h/z\""}, {"/g/h/z"}},
                  {"f['g/y'] = [1]", {"\"/g\""}, {"/g"}},
                  {"for i in range(25): f['d%02d' % i] = [1]", {"\"/d19\" and 5 more"}, {"/z"}},
                  {"f['s'] = 'text' ", {"no dataset of numbers", "\"/s\""}},
                  {"", {"no dataset at all"}}});
}

TEST_F(Hdf5Faults, DatasetsThatDoNotGoTogetherOrHaveNoRowsAreNamed) {
  expect_refused(invalid_argument, {{"f['x'] = np.arange(5)\nf['y'] = np.arange(6)",
                                     {"\"/x\" holds 5", "\"/y\" holds 6", "datasets"}},
                                    {"f['x'] = 5", {"\"/x\"", "scalar"}, {"x"}}});
  for (const auto& [names, what] : std::map<std::vector<std::string>, std::string>{
           {{"x", "/x"}, "\"x\" is named twice"}, {{""}, "no name"}}) {
    EXPECT_ERROR(open(directory_ / "0/a.h5", Hdf5Options{.datasets = names}), invalid_argument,
                 {"the option datasets", what});
  }
}

TEST_F(Hdf5Faults, OtherTypesAreUnsupported) {
  std::vector<Fault> faults;
  for (const auto& [script, what] : std::map<std::string, std::string>{
           {"f['x'] = np.zeros(3, dtype=[('b', 'i4'), ('a', 'g')])",
            "compounds whose \"a\" is of padded floats of 16"},
           {"f['x'] = np.zeros(3, dtype='g')", "floats of 16 bytes"},
           {"f.create_dataset('x', (3,), h5py.vlen_dtype(h5py.string_dtype()))", "sequences"},
           {"f.create_dataset('x', (3,), h5py.ref_dtype)", "references"}}) {
    faults.push_back({script, {"\"/x\"", what, "rewrite"}, {"x"}});
  }
  expect_refused(unsupported, faults);
}

TEST_F(Hdf5Faults, DataKeptElsewhereAreUnsupported) {
  const std::string other =
      "with h5py.File('other.hdf', 'w') as o: o['g/x'], o['t_offsets'] = np.arange(5), [0, 2]\n";
  expect_refused(
      unsupported,
      {{"f.create_dataset('x', (3,), 'i4', external=[('b.raw', 0, 12)])", {"\"/x\"", "in other files"}},
       {other + "f['x'] = h5py.ExternalLink('other.hdf', '/g/x')", {"external link", "another file"}, {"x"}},
       {"f['x'] = h5py.ExternalLink('nowhere.hdf', '/g/x')", {"external link", "another file"}, {"x"}},
       {other + "f['x'] = np.arange(2); f['x_offsets'] = h5py.ExternalLink('other.hdf', '/t_offsets')",
        {"external link", "another file"},
        {"x"}}});
}

TEST_F(Hdf5Faults, OffsetsThatAreNoneAreCorrupt) {
  std::vector<Fault> faults;
  for (const auto& [offsets, what] :
       std::map<std::string, std::string>{{"[1, 2, 4]", "begins with 1"},
                                          {"[0, 3, 2, 4]", "falls from 3 to 2 at 1"},
                                          {"[0, 2, 3]", "ends with 3"},
                                          {"[0, 2, 5]", "ends with 5"},
                                          {"np.zeros(0, 'i8')", "is empty"}}) {
    faults.push_back(
        {"f['t'] = np.arange(4)\nf['t_offsets'] = " + offsets, {"\"/t_offsets\"", what, "4 rows"}});
  }
  expect_refused(corrupt, faults);
}

TEST_F(Hdf5Faults, FilesWithOtherFieldsCannotBeJoined) {
  const auto all = h5py_each({"f['x'] = np.arange(5)", "f['x'] = np.arange(5.0)", "f['y'] = np.arange(5)"});
  fs::rename(all[1] / "a.h5", all[0] / "b.h5");
  EXPECT_ERROR(open(all[0], "hdf5"), invalid_argument,
               {"b.h5", "has \"x\" float64[]", all[0] / "a.h5 has \"x\" int64[]"});
  fs::rename(all[2] / "a.h5", all[0] / "b.h5");
  EXPECT_ERROR(open(all[0], "hdf5"), not_found, {"b.h5", "no dataset \"/x\"", "\"/y\""});
}

}  // namespace rota::test::hdf5_faults_test
