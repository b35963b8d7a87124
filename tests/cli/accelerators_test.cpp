// `rota speed` for accelerators, which take a batch, compute, and take the next.

#include <regex>

#include "cli/programs.hpp"

namespace rota::test::accelerators_test {

class Accelerators : public ProgramTest {
 protected:
  void make_files(int files, std::size_t bytes) const {
    for (int i = 0; i < files; ++i) write(fmt::format("data/{:04}", i), std::string(bytes, 'x'));
  }
  /// The utilisation of each rank, in percent, row by row.
  static std::vector<double> utilisations(const std::string& output) {
    const std::regex row(R"(\n +\d+ +\S+ +[0-9,]+ +[0-9.]+ \S+/s +([0-9.]+) %)");
    std::vector<double> found;
    for (std::sregex_iterator at(output.begin(), output.end(), row); at != std::sregex_iterator(); ++at)
      found.push_back(std::stod((*at)[1]));
    return found;
  }
};

TEST_F(Accelerators, AreAtWorkForAsLongAsTheyDoNotWait) {
  make_files(60, 1000);
  const Ended fed = rota("speed data --batch 3 --step-ms 10 --epochs 2 --seconds 1");
  EXPECT_EQ(fed.code, 0) << fed.output;
  EXPECT_THAT(fed.output, AllOf(HasSubstr("epoch 0: 20 steps, each of 3 samples and 10 ms"),
                                HasSubstr("epoch 1: 20 steps"), HasSubstr("read again from memory"),
                                Not(HasSubstr("asks for"))));
  EXPECT_THAT(utilisations(fed.output), ElementsAre(Gt(50), Gt(50))) << fed.output;

  make_files(60, 1'000'000);
  const Ended starved = rota("speed data --batch 3 --step-ms 0.001 --epochs 1 --seconds 1 --cold");
  EXPECT_THAT(utilisations(starved.output), ElementsAre(Lt(5))) << starved.output;
}

TEST_F(Accelerators, OfAPublishedShapeSayWhetherTheyAreFed) {
  make_files(96, 3000);
  const Ended ended = rota("speed data --shape retinanet --epochs 2 --seconds 1");
  EXPECT_THAT(ended.output, HasSubstr("4 steps, each of 24 samples and 47.6 ms"));
  const std::vector<double> found = utilisations(ended.output);
  ASSERT_THAT(found, SizeIs(2)) << ended.output;
  const bool is_fed = std::ranges::min(found) >= 85;  // in its worst epoch
  EXPECT_THAT(ended.output, HasSubstr(fmt::format("retinanet asks for an AU of 85 %: this {} 1 accelerator",
                                                  is_fed ? "feeds" : "does not feed")));
  expect_says("speed data --shape dlrm --batch 8 --epochs 1 --seconds 1", 0,
              AllOf(HasSubstr("12 steps, each of 8 samples and 0.375 ms"), Not(HasSubstr("asks for"))));
}

TEST_F(Accelerators, AreRefusedWhatWouldSayNothing) {
  make_files(10, 10);
  expect_says("speed data --batch 6 --step-ms 1", 1, HasSubstr("it has 10 samples, and two steps take 12"));
  expect_says("speed data --step-ms 0", 2, HasSubstr("--step-ms"));
  expect_says("speed data --step-ms nan", 2, HasSubstr("--step-ms"));
  expect_says("speed data --shape bert", 2, HasSubstr("--shape"));
  expect_says("speed data --generate 1", 2, HasSubstr("--shape"));
  expect_says("speed data --shape flux --generate 0.01abc", 2, HasSubstr("--generate"));
  expect_says("speed data --cold", 2, HasSubstr("--shape or --step-ms"));
  expect_says("speed data --epochs 3", 2, HasSubstr("--shape or --step-ms"));
  expect_says("speed data --shape flux --generate -1", 2, HasSubstr("--generate"));
}

#ifdef ROTA_MPI
TEST_F(Accelerators, OfSeveralRanksAreShownTogether) {
  make_files(60, 1000);
  const Ended ended = run("timeout 60 mpirun -n 2 " ROTA_PROGRAMS
                          "/rota speed data --batch 3 --step-ms 10 --epochs 1 --seconds 1");
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("epoch 0: 10 steps, each of 3 samples"));
  EXPECT_THAT(utilisations(ended.output), SizeIs(2)) << ended.output;
  EXPECT_EQ(run("timeout 60 mpirun -n 2 " ROTA_PROGRAMS "/rota speed nowhere --step-ms 10").code != 0, true);
  EXPECT_THAT(run("timeout 60 mpirun -n 2 sh -c \"exec " ROTA_PROGRAMS
                  "/rota speed data --batch \\$((3 - OMPI_COMM_WORLD_RANK)) --step-ms 1\""),
              ends(Ne(0), AllOf(HasSubstr("measure together"), HasSubstr("batches of 2"))));
}
#else
TEST_F(Accelerators, OfSeveralRanksNeedMpi) {
  make_files(60, 1000);
  expect_says("speed data --batch 3 --step-ms 10", 0, HasSubstr("epoch 0"));
  EXPECT_THAT(run("RANK=0 WORLD_SIZE=2 " + rota_command("speed data --step-ms 10")).output,
              HasSubstr("built without MPI"));
}
#endif

}  // namespace rota::test::accelerators_test
