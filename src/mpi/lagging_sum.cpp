#include "mpi/lagging_sum.hpp"

#include <sched.h>

#include <type_traits>
#include <utility>

#include "mpi/exchange.hpp"
#include "rota/error.hpp"

namespace rota::mpi {
namespace {

static_assert(std::is_nothrow_move_constructible_v<LaggingSum>);
static_assert(std::is_nothrow_move_assignable_v<LaggingSum>);

constexpr auto kPatience = std::chrono::milliseconds(500);

// Whether it has ended in time. Not where MPI has: what it had begun is gone.
bool ends_in_time(Operation& operation, MPI_Comm comm) noexcept {
  int is_finalized = 0;
  MPI_Finalized(&is_finalized);
  if (is_finalized != 0) return false;
  try {
    for (const auto until = Clock::now() + kPatience; Clock::now() < until; sched_yield()) {
      if (operation.advance(comm)) return true;
    }
  } catch (const Error&) {
    return false;  // nobody is left who could be told
  }
  return false;
}

}  // namespace

LaggingSum::LaggingSum() noexcept = default;

LaggingSum::LaggingSum(const Communicator& comm) {
  if (comm.size() > 1) comm_ = Communicator(comm.get());
}

LaggingSum::~LaggingSum() {
  if (operation_ && !ends_in_time(*operation_, comm_.get())) comm_.abandon();
}

LaggingSum::LaggingSum(LaggingSum&& other) noexcept = default;
LaggingSum& LaggingSum::operator=(LaggingSum&& other) noexcept {
  std::swap(comm_, other.comm_);
  std::swap(values_, other.values_);
  std::swap(operation_, other.operation_);
  return *this;
}

void LaggingSum::begin(const Values& mine) {
  values_ = std::make_shared<Values>(mine);
  if (comm_.size() == 1) return;
  const auto start = [values = values_](MPI_Comm comm, Requests& requests) {
    check(MPI_Iallreduce(MPI_IN_PLACE, values->data(), to_count(values->size()), MPI_INT64_T, MPI_SUM, comm,
                         &requests.emplace_back()),
          "MPI_Iallreduce");
  };
  operation_ = std::make_unique<Operation>("count bad samples", values_, start);
  operation_->advance(comm_.get());
}

LaggingSum::Values LaggingSum::end() {
  while (operation_ && !operation_->advance(comm_.get())) sched_yield();  // ranks may outnumber cores
  operation_.reset();
  return *std::exchange(values_, nullptr);
}

}  // namespace rota::mpi
