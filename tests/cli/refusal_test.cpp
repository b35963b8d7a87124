// Whatever is wrong, the job ends: every rank with a non-zero code, and one message that says what to do.

#include <xxhash.h>

#include "cli/programs.hpp"

namespace rota::test::refusal_test {

const std::string kGood = "--batch 8 --seed 7 --shards 10 --resume --stop-after 1";

class Refusal : public DemoTest {
 protected:
  /// Runs a phase on two ranks, which must fail, and returns its one error message. The shell ends well
  /// whatever the program does, so that mpirun lets each rank end by itself.
  std::string refused(const std::string& arguments, const char* program = kPhase) const {
    const Ended ended = run(fmt::format(
        "timeout -k 5 150 mpirun -n 2 sh -c '\"$@\"; echo $? > code.${{OMPI_COMM_WORLD_RANK}}' - {} {}",
        program, arguments));
    EXPECT_EQ(ended.code, 0) << ended.output;
    for (const char* code : {"code.0", "code.1"}) {
      EXPECT_EQ(read_file(path(code)), "1\n") << code << "\n" << ended.output;
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
};

TEST_F(Refusal, NamesAPathThatIsNotThereOrHasNothingInIt) {
  const char* const program = ROTA_PROGRAMS "/rescale_demo --phase --checkpoint checkpoints";
  EXPECT_THAT(refused("--data /nowhere/at/all", program), HasSubstr("/nowhere/at/all"));
  fs::create_directory(path("empty"));
  EXPECT_THAT(refused("--data empty", program), HasSubstr("empty"));
}

TEST_F(Refusal, NamesAnOptionThatCannotWork) {
  make_data(4);
  EXPECT_THAT(refused("--stop-after 0"), HasSubstr("--stop-after: 0 is below 1"));
  EXPECT_THAT(refused("--batch 0"), HasSubstr("batch"));
  const auto alone = [&](const std::string& arguments) {
    const Ended ended = run(kPhase + (" " + arguments));
    EXPECT_EQ(ended.code, 1);
    return error_of(ended);
  };
  EXPECT_THAT(alone("--shards 0"), HasSubstr("shards"));
  EXPECT_THAT(alone("--shuffle sorted"), AllOf(HasSubstr("sorted"), HasSubstr("within")));
  EXPECT_THAT(alone("--tail long"), AllOf(HasSubstr("long"), HasSubstr("carry")));
  EXPECT_THAT(alone("--colour red"), HasSubstr("--colour"));
}

/// A run of one step, saved.
class RefusedCheckpoint : public Refusal {
 protected:
  void SetUp() override {
    make_data(40);
    ASSERT_EQ(phase(2, kGood).code, 0);
  }
  fs::path file_ = dir_ / "checkpoints/checkpoint-000000000000.h5";
};

TEST_F(RefusedCheckpoint, IsNamedWithBothDatasetsSeedsAndNumbersOfShards) {
  EXPECT_THAT(refused("--batch 8 --seed 8 --shards 10 --resume"),
              AllOf(HasSubstr("seed"), HasSubstr("7"), HasSubstr("8")));
  EXPECT_THAT(refused("--batch 8 --seed 7 --shards 11 --resume"),
              AllOf(HasSubstr("shards"), HasSubstr("10"), HasSubstr("11")));
  write("data/one-more.txt", "one more");
  EXPECT_THAT(refused(kGood), AllOf(HasSubstr("40 samples"), HasSubstr("41 samples")));
}

TEST_F(RefusedCheckpoint, IsNamedWhereItIsDamagedAndWithBothFormatVersions) {
  const std::string good = read_file(file_);
  std::string bytes = good;
  bytes[8] = 9;  // the version, under a checksum that any version has
  const std::uint64_t checksum = XXH3_64bits(bytes.data(), 32);
  std::memcpy(bytes.data() + 32, &checksum, sizeof(checksum));
  write_file(file_, bytes);
  EXPECT_THAT(refused(kGood), AllOf(HasSubstr("version 9"), HasSubstr("1")));
  write_file(file_, good.substr(0, good.size() - 100));
  EXPECT_THAT(refused(kGood), HasSubstr("checkpoint-000000000000.h5"));
  bytes = good;
  bytes[bytes.size() / 2] ^= 4;
  write_file(file_, bytes);
  EXPECT_THAT(refused(kGood), HasSubstr("checkpoint-000000000000.h5"));
}

TEST_F(RefusedCheckpoint, IsNotPassedOverByARunThatStartsAfresh) {
  EXPECT_THAT(refused("--batch 8"), AllOf(HasSubstr("--resume"), HasSubstr("checkpoints")));
}

TEST_F(Refusal, NamesACheckpointDirectoryThatCannotBeWritten) {
  make_data(4);
  write("a-file", "not a directory");
  const char* const program = ROTA_PROGRAMS "/rescale_demo --phase --data data";
  EXPECT_THAT(refused("--checkpoint a-file/below", program), HasSubstr("a-file/below"));
  EXPECT_THAT(refused("--checkpoint /proc/checkpoints", program), HasSubstr("/proc/checkpoints"));
}

TEST_F(Refusal, NamesTheSampleThatOneRankCannotRead) {
  make_data(40);
  // Shorter by the time it is read than when it was listed: the loader finds out while the run is under way.
  auto running = start_phase(3, "--batch 4 --epochs 100000");
  wait_for_lines(0, 5);
  fs::resize_file(path("data/3/10"), 1);
  const Ended ended = running.get();
  EXPECT_NE(ended.code, 0);
  EXPECT_THAT(error_of(ended), HasSubstr("data/3/10"));
}

TEST_F(Refusal, OfTheWholeDemoSaysWhatItTakes) {
  for (const char* worlds : {"4", "0x1", "2x1:0", "2x1@0", "2x1,", "x", "2x1@8:3:4"}) {
    const Ended ended = demo(std::string("--worlds ") + worlds);
    EXPECT_EQ(ended.code, 2);
    EXPECT_THAT(error_of(ended), HasSubstr("RANKSxWORKERS[@BATCH][+DATASETS][:STEPS[!LOST]]"));
  }
  EXPECT_THAT(error_of(demo("--data /nowhere")), HasSubstr("/nowhere"));
  EXPECT_THAT(error_of(demo("--stop-after 3")), HasSubstr("--phase"));
}

}  // namespace rota::test::refusal_test
