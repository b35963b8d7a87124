#include "cli/programs.hpp"

namespace rota::test::examples_test {

class Examples : public ProgramTest {
 protected:
  using ProgramTest::run;
  /// Runs an example at `ranks` ranks; the test fails where it does.
  std::string run(int ranks, const std::string& command) const {
    const Ended ended = run(started(ranks, command));
    EXPECT_EQ(ended.code, 0) << command << "\n" << ended.output;
    return ended.output;
  }
  static std::string started(int ranks, const std::string& command) {
    return fmt::format("timeout 100 " ROTA_MPIEXEC " {} " ROTA_PROGRAMS "/{}", ranks, command);
  }
};

TEST_F(Examples, QuickstartGoesOnWithAnotherNumberOfRanks) {
  for (int i = 0; i < 200; ++i) write("data/" + std::to_string(i), "some text");
  EXPECT_THAT(run(3, "quickstart data checkpoints"), HasSubstr("rank 2 of 3"));
  EXPECT_THAT(run(2, "quickstart data checkpoints"), HasSubstr("rank 1 of 2: 0 bytes, step 4"));
}

TEST_F(Examples, CatalogReadsListedAndComputedNames) {
  std::string list;
  for (int i = 0; i < 200; ++i) {
    write("data/" + std::to_string(1000 + i) + ".txt", "some text");
    list += "data/" + std::to_string(1000 + i) + ".txt\n";
  }
  write("list", list);
  const auto all = HasSubstr("200 files, 200 samples read");
  EXPECT_THAT(run(3, "catalog data saved"), all);
  EXPECT_THAT(run(2, "catalog saved"), all);
  EXPECT_THAT(run(2, "catalog --manifest list"), all);
  write("computed/0.txt", "");
  write("computed/1.txt", "");
  EXPECT_THAT(run(2, "catalog 'computed/{index}.txt' 2"), HasSubstr("2 files, 2 samples read"));
}

TEST_F(Examples, CatalogSaysWhichWordWasToBeANumber) {
  EXPECT_THAT(run("timeout 100 " ROTA_PROGRAMS "/catalog 'c/{index}.txt' many"),
              ends(Ne(0), HasSubstr("the number of files is \"many\"; it must be a whole number")));
}

TEST_F(Examples, ClimateSeesEveryDayOfAYearOnceAtAnyWorldSizes) {
  EXPECT_THAT(run(4, "climate_windows 13 climate"),
              HasSubstr("8760 hours in 12 files, 1457 days, 33 of which cross into the next file"));
  EXPECT_THAT(run(3, "climate_windows 9 climate"), HasSubstr("from step 13"));
  EXPECT_THAT(run(5, "climate_windows 0 climate"),
              HasSubstr("step 46: 1457 days seen once, 0 not yet, 0 values wrong; that was the epoch"));
}

TEST_F(Examples, TokenizeCutsTheTokensOfLinesIntoBlocks) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += std::string(static_cast<std::size_t>(i % 7), 'a') + " b  cc\n";
  write("notes.txt", text);
  // 2 or 3 words a line, and its end: 43 lines of i % 7 == 0 have one word less.
  EXPECT_THAT(run(1, "tokenize notes.txt"), HasSubstr("300 lines, 1157 tokens, 19 blocks of 64"));
  EXPECT_THAT(run(1, "tokenize notes.txt bytes"), HasSubstr("300 lines, 2997 tokens, 49 blocks of 64"));
}

TEST_F(Examples, PackAndMixSeesEveryTokenOnceAcrossStopsAndChangesOfWeights) {
  EXPECT_THAT(run(4, "pack_and_mix 40"), HasSubstr("4 ranks, to step 40: 768 sequences of web, 192 of code"));
  EXPECT_THAT(run(1, "pack_and_mix 30"), HasSubstr("1 ranks, to step 70: "));
  EXPECT_THAT(run(3, "pack_and_mix"), HasSubstr(" tokens, "));
  EXPECT_THAT(run(2, "pack_and_mix"), HasSubstr(" 0 otherwise"));
}

TEST_F(Examples, DispatchSqliteSeesEveryRowOnceAtAnyWorldSizes) {
  EXPECT_THAT(run(4, "dispatch_sqlite --checkpoint c --stop-after 33"),
              HasSubstr("4 ranks, from step 0 to 33: 2112 rows so far"));
  EXPECT_THAT(run(3, "dispatch_sqlite --checkpoint c --stop-after 21 --batch 100"),
              HasSubstr("from step 33 to 54: 4212 rows"));
  EXPECT_THAT(run(5, "dispatch_sqlite --checkpoint c"), HasSubstr("the end: all rows were seen once"));
}

// The shell holds the pipe; each program reads on where the one before ended.
TEST_F(Examples, DispatchStdinLosesNothingOfAPipeThatTwoProgramsRead) {
  const std::string program = "timeout 60 " ROTA_PROGRAMS "/dispatch_stdin --checkpoint c";
  const Ended ended = run("seq 1 20000 | { " + program + " --stop-after 50; " + program + "; }");
  EXPECT_THAT(ended.output, AllOf(HasSubstr("from step 0 to 50: 3200 lines"), HasSubstr("; the end"),
                                  HasSubstr(": 20000 lines, 88894 bytes, sum ")));
}

TEST_F(Examples, DispatchStdinLosesNothingOfANamedPipeAtAnyWorldSizes) {
  const std::string program = "dispatch_stdin --input lines --checkpoint c";
  const Ended ended = run("mkfifo lines && { timeout 100 seq 1 60000 > lines & } && exec 3< lines && " +
                          started(3, program + " --stop-after 100") + "; " +
                          started(2, program + " --stop-after 200") + "; " + started(4, program));
  EXPECT_THAT(ended.output, AllOf(HasSubstr("2 ranks, from step 100 to 300: 19200 lines"),
                                  HasSubstr(": 60000 lines, 288894 bytes, sum ")));
}

TEST_F(Examples, DispatchStdinReadsANamedPipeWhoseWriterHasEnded) {
  const Ended ended = run("mkfifo lines && { seq 1 3000 > lines & } && exec 3< lines && wait && " +
                          started(2, "dispatch_stdin --input lines"));
  EXPECT_THAT(ended.output, HasSubstr(": 3000 lines, 10893 bytes, sum "));
}

TEST_F(Examples, OwnSourceSumsEveryRecordOnce) {
  EXPECT_THAT(run(1, "own_source"), HasSubstr("the sum of all 1000 records is 7998000"));
}

TEST_F(Examples, OwnStorageIsReadOnce) {
  EXPECT_THAT(run(1, "own_storage"),
              HasSubstr("the lines of 100 files, table://corpus/000.txt and so on, add up to 49500"));
}

TEST_F(Examples, ShardsHaveAllOfManyFiles) {
  for (std::size_t i = 0; i < 300; ++i) {
    write("photos/" + std::to_string(i) + ".jpg", std::string(i * 50, 'x'));
  }
  EXPECT_THAT(run(3, "shards photos packed"),
              AllOf(HasSubstr("300 files are in 3 shards"), HasSubstr("rank 2 of 3: 103 samples")));
  const std::string again = run(1, "shards photos packed");
  EXPECT_THAT(again, HasSubstr("rank 0 of 1: 0 samples"));  // the epoch was over
}

TEST_F(Examples, SurviveGoesOnWithoutARankThatDies) {
  if (run("test -x " ROTA_PROGRAMS "/survive").code != 0) GTEST_SKIP() << "this MPI has no fault tolerance";
  for (const std::string lost : {"2 7", "0 0", "3 83"}) {  // the last one in the middle of the second epoch
    // Behind a death Open MPI 5.0.7 sometimes does not end, on a busy machine: all is said by then.
    const Ended ended = run("timeout 20 " ROTA_MPIEXEC " 4 --with-ft ulfm " ROTA_PROGRAMS "/survive " + lost);
    EXPECT_THAT(ended.output, HasSubstr("3 ranks trained 168 steps, and lost no sample")) << lost;
  }
}

TEST_F(Examples, TrainingGoesOnAtOtherWorldSizesWithTheSameLossesAndWeights) {
  const std::string whole = run(1, "train_mpi --epochs 1 --losses ref.txt");
  run(3, "train_mpi --epochs 1 --checkpoint c --stop-after 20 --same-as ref.txt");
  run(4, "train_mpi --epochs 1 --checkpoint c --stop-after 20 --same-as ref.txt");
  const std::string last = run(2, "train_mpi --epochs 1 --checkpoint c --same-as ref.txt");
  EXPECT_THAT(last, HasSubstr("from step 40"));
  const auto result = [](const std::string& text) { return text.substr(text.find("validation loss"), 24); };
  EXPECT_EQ(result(last), result(whole));
}

TEST_F(Examples, TrainingOnOtherDataIsSeenAsAnotherCurve) {
  run(1, "train_mpi --epochs 1 --stop-after 5 --losses ref.txt");
  const Ended other = run("timeout 60 " ROTA_PROGRAMS "/train_mpi --epochs 1 --batch 255 --same-as ref.txt");
  EXPECT_EQ(other.code, 1) << other.output;
}

}  // namespace rota::test::examples_test
