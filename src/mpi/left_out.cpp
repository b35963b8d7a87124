// What there is of MPI where rota is built without it.

#include "mpi/handles.hpp"
#include "ranks/collectives.hpp"
#include "rota/error.hpp"

namespace rota {

World ranks::job_world() { return {}; }

bool mpi::is_running() noexcept { return false; }
bool mpi::has_ended() noexcept { return false; }

Communicator mpi::of_fortran(int /*handle*/, std::chrono::milliseconds /*deadline*/) {
  throw Error(
      ErrorCode::unsupported,
      "use a communicator of MPI: this rota is built without it; for ranks of MPI build it where Open MPI "
      "is installed: pip install . in a clone, or -DROTA_MPI=ON for C++");
}

}  // namespace rota
