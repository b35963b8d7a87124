#pragma once

#include <deque>

#include "mpi/deferred_reduction.hpp"
#include "mpi/pushed_messages.hpp"
#include "stream/rank_messages.hpp"

namespace rota::internal {

/// The channel of a rank other than 0. *One thread.*
class Receiver final : public MessageChannel {
 public:
  /// `channel` and `agreement`, by whose deadline it waits, must outlive it.
  Receiver(const mpi::Communicator& channel, mpi::DeferredReduction& agreement)
      : agreement_(&agreement), queue_(channel) {}

  [[nodiscard]] const Arrival* peek() override;
  [[nodiscard]] const Arrival& wait() override;
  void drop() override { arrived_.pop_front(); }
  void add_stats(LoaderStats& stats) const override;

  /// Takes no message any more of another generation.
  void restart(std::int64_t generation);

 private:
  void take_all();

  mpi::DeferredReduction* agreement_;
  mpi::ReceiveQueue queue_;
  std::int64_t generation_ = 0;
  std::deque<Arrival> arrived_;
};

}  // namespace rota::internal
