// Whatever is wrong, the job ends: every rank with a non-zero code, and one message that says what to do.

#include <xxhash.h>

#include "cli/demo_fixture.hpp"
#include "test.hpp"

namespace rota::test::refusal_test {

using rota::test::DemoTest;
using rota::test::Ended;
using rota::test::read_text;
using rota::test::run_command;

constexpr const char* kGood = "--batch 8 --seed 7 --shards 10 --resume --stop-after 1";

class Refusal : public DemoTest {
 protected:
  /// Runs a phase on two ranks, which must fail, and returns its one error message.
  std::string refused(const std::string& arguments) {
    const std::string code = path("code").string();
    // The shell ends well whatever the program does, so that mpirun lets each rank end by itself.
    const Ended ended = run_command("timeout -k 5 150 mpirun -n 2 sh -c '" ROTA_PROGRAMS "/rescale_demo" " --phase " + arguments +
                                    "; echo $? > " + code + ".${OMPI_COMM_WORLD_RANK}'");
    EXPECT_EQ(ended.code, 0) << ended.output;
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(read_text(code + "." + std::to_string(rank)), "1\n") << "rank " << rank << "\n"
                                                                     << ended.output;
    }
    return error_of(ended);
  }
  /// The error message, which must be the only one, with all its lines.
  static std::string error_of(const Ended& ended) {
    const std::size_t begin = ended.output.find("error: ");
    const bool is_only =
        begin != std::string::npos && ended.output.find("\nerror: ", begin) == std::string::npos;
    EXPECT_TRUE(is_only) << ended.output;
    return is_only ? ended.output.substr(begin) : "";
  }

  [[nodiscard]] std::string places() const {
    return "--data " + path("data").string() + " --checkpoint " + path("checkpoints").string() + " ";
  }
  /// A run of one step, saved; returns the file of its checkpoint.
  std::filesystem::path make_checkpoint() {
    make_data(40);
    EXPECT_EQ(phase(2, kGood).code, 0);
    return path("checkpoints/checkpoint-000000000000.h5");
  }
  static void overwrite(const std::filesystem::path& file, const std::string& bytes) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
  }
};

TEST_F(Refusal, NamesAPathThatIsNotThere) {
  EXPECT_THAT(refused("--data /nowhere/at/all --checkpoint " + path("checkpoints").string()),
              HasSubstr("/nowhere/at/all"));
}

TEST_F(Refusal, NamesADirectoryWithNothingInIt) {
  std::filesystem::create_directory(path("data"));
  EXPECT_THAT(refused(places()), HasSubstr(path("data").string()));
}

TEST_F(Refusal, NamesAnOptionThatCannotWork) {
  make_data(4);
  EXPECT_THAT(refused(places() + "--stop-after 0"), HasSubstr("--stop-after: 0 is below 1"));
  EXPECT_THAT(refused(places() + "--batch 0"), HasSubstr("batch"));
  EXPECT_THAT(refused(places() + "--shards 0"), HasSubstr("shards"));
  EXPECT_THAT(refused(places() + "--shuffle sorted"), AllOf(HasSubstr("sorted"), HasSubstr("within")));
  EXPECT_THAT(refused(places() + "--tail long"), AllOf(HasSubstr("long"), HasSubstr("carry")));
  EXPECT_THAT(refused(places() + "--colour red"), HasSubstr("--colour"));
}

TEST_F(Refusal, NamesBothDatasets) {
  make_checkpoint();
  dir().write("data/one-more.txt", "one more");
  EXPECT_THAT(refused(places() + kGood), AllOf(HasSubstr("40 samples"), HasSubstr("41 samples")));
}

TEST_F(Refusal, NamesBothSeeds) {
  make_checkpoint();
  EXPECT_THAT(refused(places() + "--batch 8 --seed 8 --shards 10 --resume"),
              AllOf(HasSubstr("seed"), HasSubstr("7"), HasSubstr("8")));
}

TEST_F(Refusal, NamesBothNumbersOfShards) {
  make_checkpoint();
  EXPECT_THAT(refused(places() + "--batch 8 --seed 7 --shards 11 --resume"),
              AllOf(HasSubstr("shards"), HasSubstr("10"), HasSubstr("11")));
}

TEST_F(Refusal, NamesBothFormatVersions) {
  const auto file = make_checkpoint();
  std::string bytes = read_text(file);
  bytes[8] = 9;  // the version, under a checksum that any version has
  const std::uint64_t checksum = XXH3_64bits(bytes.data(), 32);
  for (std::size_t i = 0; i < 8; ++i) bytes[32 + i] = static_cast<char>(checksum >> (8 * i));
  overwrite(file, bytes);
  EXPECT_THAT(refused(places() + kGood), AllOf(HasSubstr("version 9"), HasSubstr("1")));
}

TEST_F(Refusal, DoesNotTakeATruncatedCheckpoint) {
  const auto file = make_checkpoint();
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 100);
  EXPECT_THAT(refused(places() + kGood), HasSubstr("checkpoint-000000000000.h5"));
}

TEST_F(Refusal, DoesNotTakeACheckpointWithAFlippedBit) {
  const auto file = make_checkpoint();
  std::string bytes = read_text(file);
  bytes[bytes.size() / 2] ^= 4;
  overwrite(file, bytes);
  EXPECT_THAT(refused(places() + kGood), HasSubstr("checkpoint-000000000000.h5"));
}

TEST_F(Refusal, DoesNotStartAfreshWhereThereAreCheckpoints) {
  const auto file = make_checkpoint();
  EXPECT_THAT(refused(places() + "--batch 8"),
              AllOf(HasSubstr("--resume"), HasSubstr(path("checkpoints").string())));
}

TEST_F(Refusal, NamesACheckpointDirectoryThatCannotBeWritten) {
  make_data(4);
  dir().write("a-file", "not a directory");
  EXPECT_THAT(refused("--data " + path("data").string() + " --checkpoint " + path("a-file/below").string()),
              HasSubstr("a-file/below"));
  EXPECT_THAT(refused("--data " + path("data").string() + " --checkpoint /proc/checkpoints"),
              HasSubstr("/proc/checkpoints"));
}

TEST_F(Refusal, NamesTheSampleThatOneRankCannotRead) {
  make_data(40);
  // Shorter by the time it is read than when it was listed: the loader finds out while the run is under way.
  auto running = start_phase(3, "--batch 4 --epochs 100000");
  wait_for_lines(0, 5);
  std::filesystem::resize_file(path("data/3/10"), 1);
  const Ended ended = running.get();
  EXPECT_NE(ended.code, 0);
  EXPECT_THAT(error_of(ended), HasSubstr("data/3/10"));
}

TEST_F(Refusal, OfTheWholeDemoSaysWhatItTakes) {
  for (const char* worlds : {"4", "0x1", "2x1:0", "2x1@0", "2x1,", "x", "2x1@8:3:4"}) {
    const Ended ended = demo(std::string("--worlds ") + worlds);
    EXPECT_EQ(ended.code, 2);
    EXPECT_THAT(error_of(ended), HasSubstr("RANKSxWORKERS[@BATCH][:STEPS]"));
  }
  EXPECT_THAT(error_of(demo("--data /nowhere")), HasSubstr("/nowhere"));
  EXPECT_THAT(error_of(demo("--stop-after 3")), HasSubstr("--phase"));
}

}  // namespace rota::test::refusal_test
