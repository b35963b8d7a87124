#include <fmt/format.h>
#include <sched.h>

#include <climits>
#include <cstdio>
#include <cstdlib>

#include "rota/error.hpp"
#include "rota/mpi.hpp"

namespace rota::mpi {
namespace {

using Clock = std::chrono::steady_clock;

// How long a failing rank waits to see whether all the others fail as well.
constexpr auto kGrace = std::chrono::seconds(1);

struct Outcome {
  bool together = false;  // every rank failed
  int lowest = 0;         // and this is the first of them
};

Outcome meet(const Communicator& guard) {
  if (guard.size() == 1) return {.together = true, .lowest = 0};
  // Not on the stack: a reduction that the others never join may still write here.
  static int lowest = 0;
  lowest = guard.rank();
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Iallreduce(MPI_IN_PLACE, &lowest, 1, MPI_INT, MPI_MIN, guard.get(), &request) != MPI_SUCCESS)
    return {};
  const auto until = Clock::now() + kGrace;
  for (int done = 0; done == 0;) {
    if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return {};
    if (done != 0) return {.together = true, .lowest = lowest};
    if (Clock::now() > until) return {};
    sched_yield();
  }
  return {};
}

}  // namespace

Session::Session(int& argc, char**& argv) {
  int running = 0;
  MPI_Initialized(&running);
  if (running == 0) {
    int provided = MPI_THREAD_SINGLE;
    check(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    owns_ = true;
  }
  comm_ = Communicator(MPI_COMM_WORLD);
  guard_ = Communicator(MPI_COMM_WORLD);
}

Session::~Session() {
  guard_ = Communicator();
  comm_ = Communicator();
  if (owns_) MPI_Finalize();
}

int Session::run(const std::function<int()>& body) {
  std::string message;
  try {
    return body();
  } catch (const std::exception& error) {
    message = error.what();
  } catch (...) {
    message = "an exception of unknown type";
  }
  const Outcome outcome = meet(guard_);
  if (!outcome.together || outcome.lowest == guard_.rank()) {
    // The rank is named once, also where the message does so already.
    const auto named = fmt::format("rank {}: ", guard_.rank());
    const bool is_named = message.starts_with("rank ");
    fmt::print(stderr, "error: {}{}\n", is_named ? "" : named, message);
    std::fflush(stderr);
  }
  if (!outcome.together) MPI_Abort(guard_.get(), 1);
  return 1;
}

}  // namespace rota::mpi
