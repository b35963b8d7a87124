// Many saves, all of which are compared.

#include <mpi.h>

#include <array>
#include <chrono>
#include <stdexcept>

#include "endurance.hpp"
#include "mpi/collectives.hpp"
#include "programs.hpp"
#include "saved_state.hpp"

namespace rota::test {
namespace {

// A line that is closed to a ring, or a grid that is in one dimension; MPI may number the ranks anew.
rota::mpi::Communicator make_communicator(const std::string& kind) {
  if (kind == "world") return rota::mpi::Communicator(MPI_COMM_WORLD);
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::array<int, 2> extents{0, kind == "line" ? 1 : 0};
  std::array<int, 2> closed{1, 0};
  rota::mpi::check(MPI_Dims_create(size, 2, extents.data()), "MPI_Dims_create");
  MPI_Comm cartesian = MPI_COMM_NULL;
  rota::mpi::check(
      MPI_Cart_create(MPI_COMM_WORLD, kind == "line" ? 1 : 2, extents.data(), closed.data(), 1, &cartesian),
      "MPI_Cart_create");
  rota::mpi::Communicator comm(cartesian);
  MPI_Comm_free(&cartesian);
  return comm;
}

}  // namespace

void run_many(const rota::mpi::Session& session, const Report& report, const Arguments& arguments) {
  const rota::mpi::Communicator comm = make_communicator(arguments.at(2));
  rota::CheckpointDirectory directory(
      comm, arguments.at(0), {.deadline = std::chrono::seconds(30), .writer = writer_of(arguments.at(1))});
  const std::int64_t first = std::stol(arguments.at(3));
  const std::int64_t count = std::stol(arguments.at(4));
  std::int64_t bytes = 0;
  for (std::int64_t step = first; step < first + count; ++step) {
    const auto info = directory.save(step, rota::test::make_state(step, comm.world(), kManyBytes)).info;
    const rota::Checkpoint saved = directory.open(info.serial);
    const std::string wrong =
        saved.info().step == step ? rota::test::difference(saved, kManyBytes) : "another step";
    if (!wrong.empty()) throw std::runtime_error("step " + std::to_string(step) + ": " + wrong);
    bytes += info.bytes;
  }
  rota::mpi::agree(session.comm(), "end", nullptr);
  report.say("saved " + std::to_string(count) + " " + std::to_string(bytes));
}

}  // namespace rota::test
