#include "mpi/minimum.hpp"

#include <sched.h>

namespace rota::mpi {

Minimum::Minimum(const Communicator* comm, std::chrono::milliseconds deadline, std::string_view phase)
    : comm_(comm != nullptr && comm->get() != MPI_COMM_NULL ? Communicator(comm->get()) : Communicator()),
      exchange_(comm_, deadline),
      phase_(phase) {}

Minimum::~Minimum() {
  if (comm_.size() > 1 && (!is_quiet_ || exchange_.is_broken())) comm_.abandon();
}

void Minimum::post(std::int64_t value) {
  least_ = std::make_shared<std::int64_t>(value);
  round_ = std::make_unique<Operation>(phase_, least_, [least = least_](MPI_Comm comm, Requests& requests) {
    check(MPI_Iallreduce(MPI_IN_PLACE, least.get(), 1, MPI_INT64_T, MPI_MIN, comm, &requests.emplace_back()),
          "MPI_Iallreduce");
  });
  exchange_.advance(*round_);
}

std::int64_t Minimum::finish() {
  exchange_.finish(*round_);
  round_.reset();
  return *least_;
}

void Minimum::await(const std::function<bool()>& is_done) {
  const auto until = exchange_.latest();
  while (!is_done()) {
    exchange_.attend(phase_);
    if (Clock::now() > until) exchange_.give_up(phase_);
    sched_yield();  // ranks may outnumber cores
  }
}

void Minimum::agree(const std::exception_ptr& error) {
  mpi::agree(
      comm_.world(), [this](Operation& operation) { exchange_.finish(operation); }, phase_, error);
}

}  // namespace rota::mpi
