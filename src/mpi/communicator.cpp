#include <fmt/format.h>

#include <array>
#include <utility>

#include "core/owned.hpp"
#include "mpi/collectives.hpp"
#include "rota/error.hpp"

namespace rota::mpi {
namespace {

bool is_running() {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized != 0 && finalized == 0;
}

[[noreturn]] void refuse(std::string_view what, std::string_view why) {
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", what, why));
}

// Others abort the job inside MPI, or have ranks that do not read together.
void require_intra(MPI_Comm comm, std::string_view what) {
  if (!is_running()) refuse(what, "MPI does not run; call MPI_Init first, or make a rota::mpi::Session");
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

void check(int code, std::string_view call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw Error(ErrorCode::io,
              fmt::format("{}: {}", call, std::string_view(text.data(), static_cast<std::size_t>(length))));
}

World world(MPI_Comm comm) {
  require_intra(comm, "ask a communicator for its world");
  World world;
  check(MPI_Comm_rank(comm, &world.rank), "MPI_Comm_rank");
  check(MPI_Comm_size(comm, &world.size), "MPI_Comm_size");
  return world;
}

int job_size() { return is_running() ? world(MPI_COMM_WORLD).size : 1; }

Communicator::Communicator(MPI_Comm comm) {
  require_intra(comm, "duplicate a communicator");
  check(MPI_Comm_dup(comm, &comm_), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  world_ = mpi::world(comm_);
  rank_ = world_.rank;
  size_ = world_.size;
}

void require_ranks(const Communicator& comm) {
  if (comm.size() == 0) internal::refuse_empty("a communicator");
  if (comm.get() == MPI_COMM_NULL || comm.maker_ == internal::this_process()) return;
  throw Error(
      ErrorCode::unsupported,
      fmt::format("use a communicator in process {}, which was forked of process {} that made it: only that "
                  "one is a rank of MPI; pass a default-made one here",
                  internal::this_process(), comm.maker_));
}

bool is_alone(const Communicator& comm) {
  require_ranks(comm);
  return comm.size() == 1;
}

Communicator Communicator::duplicate() const {
  require_ranks(*this);
  Communicator copy = comm_ == MPI_COMM_NULL ? Communicator() : Communicator(comm_);
  copy.world_ = world_;
  return copy;
}

Communicator::~Communicator() {
  if (comm_ == MPI_COMM_NULL || maker_ != internal::this_process()) return;
  if (is_running()) MPI_Comm_free(&comm_);
}

Communicator::Communicator(Communicator&& other) noexcept
    : comm_(std::exchange(other.comm_, MPI_COMM_NULL)),
      rank_(std::exchange(other.rank_, 0)),
      size_(std::exchange(other.size_, 0)),
      world_(std::exchange(other.world_, World{.size = 0})),
      maker_(other.maker_) {}

Communicator& Communicator::operator=(Communicator&& other) noexcept {
  Communicator taken(std::move(other));  // and so leaves `other` moved from
  std::swap(comm_, taken.comm_);
  std::swap(rank_, taken.rank_);
  std::swap(size_, taken.size_);
  std::swap(world_, taken.world_);
  std::swap(maker_, taken.maker_);
  return *this;
}

}  // namespace rota::mpi
