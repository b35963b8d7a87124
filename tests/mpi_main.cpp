// main of the tests that mpirun starts: every rank runs every test, and the program fails where any rank
// failed.

#include "mpi_main.hpp"
#include "test.hpp"

namespace {
rota::mpi::Session* current = nullptr;
}  // namespace

rota::mpi::Session& mpi_session() { return *current; }

int main(int argc, char** argv) {
  rota::mpi::Session session(argc, argv);
  current = &session;
  ::testing::InitGoogleTest(&argc, argv);
  if (session.world().rank != 0) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    listeners.Append(new mpi_main::FailuresOnly(session.world().rank));
    delete listeners.Release(listeners.default_result_printer());
  }
  std::int64_t failed = RUN_ALL_TESTS();
  if (::testing::UnitTest::GetInstance()->test_to_run_count() == 0)
    failed = 1;  // a filter names what is gone
  rota::mpi::max(session.comm(), std::span(&failed, 1));
  return static_cast<int>(failed);
}
