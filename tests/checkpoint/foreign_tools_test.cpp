// Other tools read the file: it is plain HDF5, with little-endian types and names to read by.

#include "checkpoint_fixture.hpp"
#include "run_command.hpp"

namespace rota::test::foreign_tools_test {

// What `command` prints. Fails the test where it fails.
std::string output_of(const std::string& command) {
  const Ended ended = run_command(command);
  EXPECT_EQ(ended.code, 0) << command << "\n" << ended.output;
  return ended.output;
}

class ForeignTools : public CheckpointTest {
 protected:
  fs::path save() {
    const Numbers cursors{0, 5, 0, 6, 1, 0};
    const std::vector<float> weights{0.5F, -2, 8};
    const std::vector<std::uint16_t> halves{0x3C00, 0xC000};
    const std::vector<std::byte> flags{std::byte{1}, std::byte{0}};
    Snapshot snapshot;
    snapshot.tensor("loader/main/cursors", {2}, 3, std::span<const std::int64_t>(cursors));
    snapshot.tensor("model/w", {}, 3, std::span<const float>(weights));
    snapshot.tensor("model/half", DType::float16, {}, 2, std::as_bytes(std::span(halves)));
    snapshot.tensor("model/flags", DType::boolean, {}, 2, std::span(flags));
    snapshot.blob("loader/main/state", "seed 7");
    return open().save(12, snapshot).info.path;
  }
};

TEST_F(ForeignTools, H5dumpPrintsTensorsAndAttributes) {
  const std::string text = output_of("h5dump " + save().string());
  EXPECT_THAT(text, HasSubstr("GROUP \"loader\""));
  EXPECT_THAT(text, HasSubstr("(0,0): 0, 5,"));
  EXPECT_THAT(text, HasSubstr("H5T_STD_I64LE"));
  EXPECT_THAT(text, HasSubstr("0.5, -2, 8"));
  EXPECT_THAT(text, HasSubstr("TRUE, FALSE"));
}

TEST_F(ForeignTools, H5pyReadsTensorsBlobsAndAttributes) {
  const auto script = path_ / "read.py";
  write_file(script,
             "import sys, h5py\n"
             "f = h5py.File(sys.argv[1], 'r')\n"
             "assert f['loader/main/cursors'][:].tolist() == [[0, 5], [0, 6], [1, 0]]\n"
             "assert f['model/w'][:].tolist() == [0.5, -2, 8]\n"
             "assert f['model/half'][:].tolist() == [1, -2]\n"
             "assert f['model/flags'][:].tolist() == [True, False]\n"
             "assert f['model/flags'].dtype == bool\n"
             "assert f.attrs['step'] == 12 and f.attrs['world_size'] == 1\n"
             "assert f['model/w'].attrs['dtype'] == b'float32'\n"
             "row = f['rota/blobs/index'][0]\n"
             "assert row['name'] == b'loader/main/state' and row['rank'] == -1, row\n"
             "assert row['codec'] == 0 and f['rota/blobs/bytes'][:].tobytes() == b'seed 7'\n");
  output_of("/usr/bin/python3 " + script.string() + " " + save().string());
}

TEST_F(ForeignTools, FindEachTensorAtItsNameAndOnlyTensorsOutsideOfTheFilesOwnGroup) {
  const Numbers values{1};
  std::vector<std::string> names{"blobs/index", "loader", "model/rota", "rotas", "stream/main", "tensors/a"};
  Snapshot snapshot;
  for (const std::string& name : names) snapshot.tensor(name, {}, 1, std::span<const std::int64_t>(values));
  snapshot.blob("rotating/state", "some");
  const auto file = open().save(1, snapshot).info.path;
  std::string found = output_of("h5dump -n 1 " + file.string() + " | sed -n 's,^ dataset *,,p'");
  for (const std::string& name : names) EXPECT_THAT(found, HasSubstr("/" + name + "\n"));
  EXPECT_EQ(std::ranges::count(found, '\n'), std::ssize(names) + 2) << found;
  EXPECT_THAT(found, AllOf(HasSubstr("/rota/blobs/bytes\n"), HasSubstr("/rota/blobs/index\n")));
}

}  // namespace rota::test::foreign_tools_test
