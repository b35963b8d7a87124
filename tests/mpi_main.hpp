#pragma once

// What the tests that mpirun starts share: one MPI session, and failures that name their rank.

#include "test.hpp"

/// The session of this process.
rota::mpi::Session& mpi_session();

namespace mpi_main {

/// Prints only failures, headed by the rank: rank 0 prints all else.
class FailuresOnly : public ::testing::EmptyTestEventListener {
 public:
  explicit FailuresOnly(int rank) : rank_(rank) {}
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (result.failed()) {
      std::fprintf(stderr, "[rank %d] %s:%d: %s\n", rank_, result.file_name(), result.line_number(),
                   result.message());
    }
  }

 private:
  int rank_;
};

}  // namespace mpi_main
