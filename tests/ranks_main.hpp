#pragma once

// What tests of several ranks share. A program has all of them: each rank runs each test.

#include "test.hpp"

namespace rota::test {

/// The ranks of this program: processes that mpirun started, or with --threads=N its own threads.
const Communicator& everyone();
/// Whether they are threads. What is of a process, such as its signals and limits, is then common to them.
bool are_threads();

}  // namespace rota::test
