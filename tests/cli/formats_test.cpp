// Runs over each format through several worlds, with the content of every delivered sample as a reader that
// is not ours reads it (formats/read.py) in a dataset that a writer that is not ours made
// (formats/write.py).

#include "cli/demo_fixture.hpp"
#include "test.hpp"

namespace rota::test::formats_test {

using rota::test::DemoTest;
using rota::test::Ended;
using rota::test::run_command;

constexpr const char* kWorlds = " --worlds 4x2:3,3x1@9:5,1x0:4,2x2";

struct Run {
  const char* format;
  const char* options;
  const char* samples;
};

// As GoogleTest shows it.
void PrintTo(const Run& run, std::ostream* out) { *out << run.format << run.options; }

class FormatTest : public DemoTest {
 protected:
  void write(const std::string& format) {
    std::filesystem::create_directory(data());
    const Ended ended = run_command("cd '" + data() + "' && timeout 60 " ROTA_TEST_PYTHON " " ROTA_TESTS "/formats"  "/write.py " + format);
    ASSERT_EQ(ended.code, 0) << ended.output;
  }
  Ended run(const std::string& format, const std::string& options) {
    return demo("--data '" + data() + "' --format " + format + " --work " + path("work").string() + kWorlds +
                " --epochs 2 --batch 8" + options);
  }
  Ended compare(const std::string& format) {
    return run_command("timeout 60 " ROTA_TEST_PYTHON " " ROTA_TESTS "/formats"  "/read.py " + format + " '" + data() + "' " +
                       path("work/trace").string());
  }
  [[nodiscard]] std::string data() const { return path("data of\n\xFF format").string(); }
};

class EveryFormat : public FormatTest, public ::testing::WithParamInterface<Run> {};

TEST_P(EveryFormat, DeliversWhatAnotherReaderReadsInEveryWorld) {
  const auto [format, options, samples] = GetParam();
  write(format);
  const Ended ended = run(format, options);
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("PROVEN: 2 epochs x " + std::string(samples)));
  const Ended compared = compare(format);
  EXPECT_EQ(compared.code, 0) << compared.output;
  EXPECT_THAT(compared.output, HasSubstr(samples));
}

// Fewer shards than files make groups of whole files where the format has records.
INSTANTIATE_TEST_SUITE_P(
    Worlds, EveryFormat,
    ::testing::Values(Run{"files", " --shards 7", "60 samples"},
                      Run{"hdf5", " --shards 12 --shuffle within", "64 samples"},
                      Run{"tar", " --shards 3 --shuffle within", "64 samples"},
                      Run{"tfrecord", " --shards 2 --shuffle within", "64 samples"},
                      Run{"lines", " --shards 4 --tail carry --shuffle within", "65 samples"},
                      Run{"npy", " --shards 9 --shuffle block", "64 samples"},
                      Run{"npz", " --shards 5 --interleave 2", "60 samples"},
                      Run{"tokens", " --shards 6 --tail pad", "60 samples"},
                      Run{"megatron", " --shards 4 --shuffle none", "64 samples"},
                      Run{"mds", " --shards 3 --shuffle within --tail pad", "64 samples"}),
    [](const auto& run) { return std::string(run.param.format); });

// What the tests above rest on.
TEST_F(FormatTest, TheOtherReaderTellsOneBitFromAnother) {
  write("lines");
  ASSERT_EQ(run("lines", "").code, 0);
  std::fstream file(data() + "/a b.txt", std::ios::binary | std::ios::in | std::ios::out);
  const auto byte = static_cast<char>(file.get());
  file.seekp(0).put(static_cast<char>(byte ^ 64));
  file.close();
  const Ended compared = compare("lines");
  EXPECT_EQ(compared.code, 1);
  EXPECT_THAT(compared.output, HasSubstr("sample 0 is "));
}

}  // namespace rota::test::formats_test
