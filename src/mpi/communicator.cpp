#include <memory>
#include <string_view>

#include "core/failure.hpp"
#include "mpi/handles.hpp"
#include "mpi/transport.hpp"
#include "ranks/access.hpp"
#include "ranks/collectives.hpp"
#include "rota/mpi.hpp"

namespace rota {

World ranks::job_world() { return mpi::is_running() ? mpi::world(MPI_COMM_WORLD) : World{}; }

namespace mpi {
namespace {

constexpr std::string_view kDuplicating = "duplicate a communicator";

[[noreturn]] void refuse(std::string_view what, std::string_view why) {
  throw internal::failure(ErrorCode::invalid_argument, "{}: {}", what, why);
}

// Others abort the job inside MPI, or have ranks that do not read together.
void require_intra(MPI_Comm comm, std::string_view what) {
  if (!is_running()) refuse(what, "MPI does not run; call MPI_Init first, or make a Session");
  if (comm == MPI_COMM_NULL) {
    refuse(what,
           "it is MPI_COMM_NULL, which MPI_Comm_split gives for MPI_UNDEFINED; this rank takes no part, and "
           "must skip this call");
  }
  int is_inter = 0;
  check(MPI_Comm_test_inter(comm, &is_inter), "MPI_Comm_test_inter");
  if (is_inter != 0) {
    refuse(what,
           "it is an intercommunicator; pass the communicator of one of its groups, or merge them with "
           "MPI_Intercomm_merge");
  }
}

}  // namespace

bool is_running() noexcept {
  int is_initialized = 0;
  MPI_Initialized(&is_initialized);
  return is_initialized != 0 && !has_ended();
}

bool has_ended() noexcept {
  int is_finalized = 0;
  MPI_Finalized(&is_finalized);
  return is_finalized != 0;
}

World world(MPI_Comm comm) {
  require_intra(comm, "ask a communicator for its world");
  World world;
  check(MPI_Comm_rank(comm, &world.rank), "MPI_Comm_rank");
  check(MPI_Comm_size(comm, &world.size), "MPI_Comm_size");
  return world;
}

Communicator communicator(MPI_Comm comm, std::chrono::milliseconds deadline) {
  require_intra(comm, kDuplicating);
  ranks::require_deadline(deadline);
  ranks::Exchange meeting(std::make_unique<MpiTransport>(comm, MpiTransport::Ownership::borrowed), deadline);
  return ranks::make_communicator(ranks::duplicate(meeting), deadline);
}

Communicator of_fortran(int handle, std::chrono::milliseconds deadline) {
  return communicator(MPI_Comm_f2c(handle), deadline);
}

MPI_Comm handle_of(const Communicator& comm) noexcept {
  const ranks::Exchange* exchange = CommunicatorAccess::exchange(comm);
  const auto* transport = exchange == nullptr ? nullptr : dynamic_cast<MpiTransport*>(&exchange->transport());
  return transport == nullptr ? MPI_COMM_NULL : transport->comm();
}

}  // namespace mpi

}  // namespace rota
