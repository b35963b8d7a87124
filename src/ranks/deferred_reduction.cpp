#include "ranks/deferred_reduction.hpp"

#include <utility>

#include "ranks/backoff.hpp"

namespace rota::ranks {

DeferredReduction::DeferredReduction(const Communicator& comm, Reduction reduction,
                                     std::chrono::milliseconds deadline, std::string_view phase)
    : comm_(comm.duplicate(deadline)), reduction_(reduction), phase_(phase) {}

DeferredReduction::~DeferredReduction() {
  if (comm_.size() == 1) return;
  Exchange& exchange = exchange_of(comm_);
  if (exchange.is_broken() || !is_quiet_ || !ends_in_time(exchange)) exchange.abandon();
}

// Not where the transport has ended: what it had begun is gone.
bool DeferredReduction::ends_in_time(Exchange& exchange) noexcept {
  constexpr auto kPatience = std::chrono::milliseconds(500);
  if (!operation_) return true;
  if (exchange.transport().has_ended()) return false;
  try {
    Backoff backoff;
    for (const auto until = DeadlineClock::now() + kPatience; DeadlineClock::now() < until; backoff.wait()) {
      if (exchange.move(*operation_)) return true;
    }
  } catch (...) {  // nobody is left who could be told
  }
  return false;
}

void DeferredReduction::begin(Values mine) {
  values_ = std::make_shared<Values>(std::move(mine));
  operation_ = std::make_unique<Operation>(
      phase_, values_,
      [values = values_, how = reduction_](Transport& by) { return by.reduce(*values, how); });
  if (comm_.size() == 1) return;
  // Where ranks were given up, or have gone, `end` says so: what this one did until here is good.
  Exchange& exchange = exchange_of(comm_);
  if (!exchange.is_broken()) exchange.start(*operation_);
}

DeferredReduction::Values DeferredReduction::end() {
  if (comm_.size() > 1) exchange_of(comm_).finish(*operation_);
  operation_.reset();
  return std::move(*values_);
}

void DeferredReduction::await(const std::function<bool()>& is_done) {
  exchange_of(comm_).wait(phase_, is_done);
}

void DeferredReduction::agree(const std::exception_ptr& error) { ranks::agree(comm_, phase_, error); }

}  // namespace rota::ranks
