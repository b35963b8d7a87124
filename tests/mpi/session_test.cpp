#include "run_command.hpp"
#include "test.hpp"

namespace rota::test::session_test {

using rota::test::Ended;

Ended guarded(const std::string& how) {
  return rota::test::run_command("timeout 60 " ROTA_MPIEXEC " 3 " ROTA_PROGRAMS "/test_helper guarded" " " + how);
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Session, ARankThatFailsAloneEndsTheJobThatWaitsForIt) {
  const Ended ended = guarded("one");
  EXPECT_NE(ended.code, 0);
  EXPECT_EQ(count(ended.output, "error: rank 1: this rank alone"), 1U) << ended.output;
  EXPECT_LT(ended.seconds, 30);
}

TEST(Session, AFailureOfAllRanksIsToldOnce) {
  const Ended ended = guarded("all");
  EXPECT_NE(ended.code, 0);
  EXPECT_EQ(count(ended.output, "error:"), 1U) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("error: rank 0: the same on every rank"));
}

TEST(Session, DifferentFailuresOfAllRanksAreAllTold) {
  const Ended ended = guarded("each");
  EXPECT_NE(ended.code, 0);
  EXPECT_EQ(count(ended.output, "error:"), 3U) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("error: rank 2: of rank 2 only"));
}

TEST(Session, AnAgreedFailureIsToldOnceWithTheRankThatHadIt) {
  const Ended ended = guarded("together");
  EXPECT_NE(ended.code, 0);
  EXPECT_EQ(count(ended.output, "error:"), 1U) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("error: rank 2: agreed on"));
}

TEST(Session, GivesTheBodysExitCodeAndSaysNothingWhereAllIsWell) {
  EXPECT_EQ(guarded("code").code, 3);
  const Ended well = guarded("well");
  EXPECT_EQ(well.code, 0);
  EXPECT_THAT(well.output, Not(HasSubstr("error")));
}

TEST(Session, WorksWithoutMpirun) {
  const Ended ended = rota::test::run_command("timeout 60 " ROTA_PROGRAMS "/test_helper guarded" " all");
  EXPECT_EQ(ended.code, 1);
  EXPECT_EQ(ended.output, "error: rank 0: the same on every rank\n");
}

}  // namespace rota::test::session_test
