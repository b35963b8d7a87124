#include "run_command.hpp"

namespace rota::test::session_test {

Ended guarded(const std::string& how) {
  return run_command("timeout 60 " ROTA_MPIEXEC " 3 " ROTA_PROGRAMS "/test_child guarded " + how);
}

/// It fails and says `why`, and `part`, which is in all that a rank says, `times` times.
void expect_told(const Ended& ended, const std::string& why, int times, const std::string& part = "error:") {
  EXPECT_NE(ended.code, 0);
  EXPECT_THAT(ended.output, HasSubstr(why));
  int told = 0;
  for (std::size_t at = 0; (at = ended.output.find(part, at)) != std::string::npos; ++at) ++told;
  EXPECT_EQ(told, times) << ended.output;
}

TEST(Session, ARankThatFailsAloneEndsTheJobThatWaitsForIt) {
  const Ended ended = guarded("one");
  expect_told(ended, "error: rank 1: this rank alone", 1, "this rank alone");
  EXPECT_LT(ended.seconds, 30);
}

TEST(Session, AFailureOfAllRanksIsToldOnce) {
  expect_told(guarded("all"), "error: rank 0: the same on every rank", 1);
}

TEST(Session, DifferentFailuresOfAllRanksAreAllTold) {
  expect_told(guarded("each"), "error: rank 2: of rank 2 only", 3);
}

TEST(Session, AnAgreedFailureIsToldOnceWithTheRankThatHadIt) {
  expect_told(guarded("together"), "error: rank 2: agreed on", 1);
}

TEST(Session, GivesTheBodysExitCodeAndSaysNothingWhereAllIsWell) {
  EXPECT_EQ(guarded("code").code, 3);
  EXPECT_THAT(guarded("well"), ends(0, Not(HasSubstr("error"))));
}

TEST(Session, WorksWithoutMpirun) {
  const Ended ended = run_command("timeout 60 " ROTA_PROGRAMS "/test_child guarded all");
  EXPECT_EQ(ended.code, 1);
  EXPECT_EQ(ended.output, "error: rank 0: the same on every rank\n");
}

TEST(Session, IsRefusedWhereTheLauncherSaysThatThereAreMoreThanMpiHas) {
  EXPECT_THAT(run_command("RANK=0 WORLD_SIZE=2 timeout 60 " ROTA_PROGRAMS "/test_child guarded well"),
              ends(Ne(0), AllOf(HasSubstr("torchrun started 2 processes (WORLD_SIZE), and MPI has 1"),
                                HasSubstr("unset WORLD_SIZE"))));
}

}  // namespace rota::test::session_test
