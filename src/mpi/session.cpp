#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>

#include "core/caught.hpp"
#include "core/failure.hpp"
#include "mpi/transport.hpp"
#include "ranks/collectives.hpp"
#include "rota/mpi.hpp"

namespace rota::mpi {
namespace {

// How long a failing rank waits to see whether all the others fail as well, before it asks who is there.
constexpr auto kGrace = std::chrono::milliseconds(500);

struct Outcome {
  bool together = false;  // every rank failed
  bool is_first = true;   // this rank is to speak: it is the first, or its message is not that of the others
};

Outcome meet(const Communicator& guard, const std::string& message) {
  try {
    const bool is_same = ranks::is_same(guard, "end a session", message);
    return {.together = true, .is_first = !is_same || guard.rank() == 0};
  } catch (const Error&) {
    return {};
  }
}

// Of a program that is linked to another MPI than that which started it, each process is a world of one.
void require_launched_world() {
  const internal::Launched launched = internal::launched();
  if (world(MPI_COMM_WORLD).size > 1 || launched.world.size == 1) return;
  throw internal::failure(
      ErrorCode::invalid_argument,
      "begin a session: {} started {} processes ({}), and MPI has 1: each would read everything; start the "
      "program by the mpirun of the MPI that it is linked to, or srun with its PMI (--mpi=pmix); or unset {}",
      launched.by, launched.world.size, launched.named, launched.named);
}

}  // namespace

Session::Session(int& argc, char**& argv, ThreadLevel level, std::chrono::milliseconds deadline) {
  int running = 0;
  MPI_Initialized(&running);
  if (running == 0) {
    int provided = MPI_THREAD_SINGLE;
    check(MPI_Init_thread(&argc, &argv,
                          level == ThreadLevel::multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED,
                          &provided),
          "MPI_Init_thread");
    owns_ = true;
  }
  try {
    require_launched_world();
  } catch (...) {
    if (owns_) MPI_Finalize();
    throw;
  }
  comm_ = communicator(MPI_COMM_WORLD, deadline);
  guard_ = comm_.duplicate(kGrace);
}

Session::~Session() {
  guard_ = Communicator();
  comm_ = Communicator();
  if (owns_) MPI_Finalize();
}

int Session::run(const std::function<int()>& body) {
  internal::Caught error;
  try {
    return body();
  } catch (...) {
    error = internal::caught(std::current_exception());
  }
  const std::string& message = error.message;
  const Outcome outcome = meet(guard_, message);
  if (outcome.is_first) {
    // The rank is named once, also where the message does so already.
    const std::string rank = message.starts_with("rank ") ? "" : fmt::format("rank {}: ", guard_.rank());
    fmt::print(stderr, "error: {}{}\n", rank, message);
    std::fflush(stderr);
  }
  // After a missed deadline operations are under way that MPI_Finalize can crash on.
  if (!outcome.together || error.code == ErrorCode::timeout) MPI_Abort(handle_of(guard_), 1);
  return 1;
}

}  // namespace rota::mpi
