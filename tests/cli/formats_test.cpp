// Runs over each format through several worlds, with the content of every delivered sample as a reader that
// is not ours reads it (formats/read.py) in a dataset that a writer that is not ours made (formats/write.py).

#include "cli/programs.hpp"

namespace rota::test::formats_test {

struct Run {
  const char* format;
  const char* options;
  int samples;
};

// As GoogleTest shows it.
void PrintTo(const Run& run, std::ostream* out) { *out << run.format << run.options; }

class FormatTest : public DemoTest {
 protected:
  void write_dataset(const std::string& format) const {
    fs::create_directory(dir_ / kData);
    const Ended ended = python("write.py " + format, kData);
    ASSERT_EQ(ended.code, 0) << ended.output;
  }
  Ended run_demo(const std::string& format, const std::string& options) const {
    return demo(
        fmt::format("--data '{}' --format {} --work work --epochs 2 --batch 8 {}", kData, format, options));
  }
  Ended compare(const std::string& format) const {
    return python(fmt::format("read.py {} '{}' work/trace", format, kData), ".");
  }
  Ended python(const std::string& arguments, const std::string& directory) const {
    return run("cd '" + directory + "' && timeout 60 " ROTA_TEST_PYTHON " '" ROTA_TESTS "/formats/'" +
               arguments);
  }

  static constexpr const char* kData = "data of\n\xFF format";
};

class EveryFormat : public FormatTest, public WithParamInterface<Run> {
 protected:
  void expect_delivered(const std::string& worlds) const {
    const auto [format, options, samples] = GetParam();
    write_dataset(format);
    EXPECT_THAT(run_demo(format, options + worlds),
                ends(0, HasSubstr(fmt::format("PROVEN: 2 epochs x {} samples", samples))));
    EXPECT_THAT(compare(format), ends(0, HasSubstr(fmt::format("{} samples", samples))));
  }
};
class EveryFormatCampaign : public EveryFormat {};

TEST_P(EveryFormat, DeliversInTwoWorldsWhatAnotherReaderReads) { expect_delivered(" --worlds 3x2@9:5,2x0"); }
TEST_P(EveryFormatCampaign, DeliversInFourWorldsWhatAnotherReaderReads) {
  expect_delivered(" --worlds 4x2:3,3x1@9:5,1x0:4,2x2");
}

// Fewer shards than files make groups of whole files where the format has records.
const auto kRuns =
    Values(Run{"files", "--shards 7", 60}, Run{"hdf5", "--shards 12 --shuffle within", 64},
           Run{"tar", "--shards 3 --shuffle within", 64}, Run{"tfrecord", "--shards 2 --shuffle within", 64},
           Run{"lines", "--shards 4 --tail carry --shuffle within", 65},
           Run{"npy", "--shards 9 --shuffle block", 64}, Run{"npz", "--shards 5 --interleave 2", 60},
           Run{"tokens", "--shards 6 --tail pad", 60}, Run{"megatron", "--shards 4 --shuffle none", 64},
           Run{"mds", "--shards 3 --shuffle within --tail pad", 64});
const auto kName = [](const auto& run) { return std::string(run.param.format); };

INSTANTIATE_TEST_SUITE_P(Worlds, EveryFormat, kRuns, kName);
INSTANTIATE_TEST_SUITE_P(Worlds, EveryFormatCampaign, kRuns, kName);

// What the tests above rest on.
TEST_F(FormatTest, TheOtherReaderTellsOneBitFromAnother) {
  write_dataset("lines");
  ASSERT_EQ(run_demo("lines", "--worlds 1x0").code, 0);
  flip(dir_ / kData / "a b.txt", 0, 6);
  EXPECT_THAT(compare("lines"), ends(1, HasSubstr("sample 0 is ")));
}

}  // namespace rota::test::formats_test
