#include "mpi/deferred_reduction.hpp"

#include <utility>

#include "mpi/backoff.hpp"
#include "rota/error.hpp"

namespace rota::mpi {
namespace {

constexpr auto kPatience = std::chrono::milliseconds(500);

}  // namespace

DeferredReduction::DeferredReduction(const Communicator& comm, Reduction reduction,
                                     std::chrono::milliseconds deadline, std::string_view phase)
    : comm_(comm.duplicate(deadline)), reduction_(reduction), phase_(phase) {}

DeferredReduction::~DeferredReduction() {
  if (comm_.size() == 1) return;
  Exchange& exchange = exchange_of(comm_);
  if (exchange.is_broken() || !is_quiet_ || !ends_in_time(exchange)) comm_.abandon();
}

// Not where MPI has ended: what it had begun is gone.
bool DeferredReduction::ends_in_time(Exchange& exchange) noexcept {
  if (!operation_) return true;
  if (!is_running()) return false;
  try {
    Backoff backoff;
    for (const auto until = DeadlineClock::now() + kPatience; DeadlineClock::now() < until; backoff.wait()) {
      if (operation_->advance(exchange.comm())) return true;
    }
  } catch (const Error&) {
    return false;  // nobody is left who could be told
  }
  return false;
}

void DeferredReduction::begin(Values mine) {
  values_ = std::make_shared<Values>(std::move(mine));
  const auto start = [values = values_, op = reduction_ == Reduction::sum ? MPI_SUM : MPI_MIN](
                         MPI_Comm comm, Requests& requests) {
    check(MPI_Iallreduce(MPI_IN_PLACE, values->data(), to_count(values->size()), MPI_INT64_T, op, comm,
                         &requests.emplace_back()),
          "MPI_Iallreduce");
  };
  operation_ = std::make_unique<Operation>(phase_, values_, start);
  if (comm_.size() == 1) return;
  // Where ranks were given up, `end` says so: what this one did until here is good.
  const Exchange& exchange = exchange_of(comm_);
  if (!exchange.is_broken()) operation_->advance(exchange.comm());
}

DeferredReduction::Values DeferredReduction::end() {
  if (comm_.size() > 1) exchange_of(comm_).finish(*operation_);
  operation_.reset();
  return std::move(*values_);
}

void DeferredReduction::await(const std::function<bool()>& is_done) {
  exchange_of(comm_).wait(phase_, is_done);
}

void DeferredReduction::agree(const std::exception_ptr& error) { mpi::agree(comm_, phase_, error); }

}  // namespace rota::mpi
