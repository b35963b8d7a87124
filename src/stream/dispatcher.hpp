#pragma once

#include <deque>
#include <memory>

#include "mpi/pushed_messages.hpp"
#include "stream/step_builder.hpp"

namespace rota::internal {

/// Rank 0's channel: what its builder ties is pushed to the other ranks as soon as this thread comes by, and
/// is kept until it is delivered. *One thread.*
class Dispatcher final : public MessageChannel {
 public:
  /// `channel`, `layout` and `options` must outlive it.
  Dispatcher(std::shared_ptr<const StreamSource> source, const RecordLayout& layout, const DispatchPlan& plan,
             const StreamLoaderOptions& options, const mpi::Communicator& channel);

  [[nodiscard]] const Arrival* peek() override;
  [[nodiscard]] const Arrival& wait() override;
  void drop() override;
  void add_stats(LoaderStats& stats) const override;

  /// Holds the reading until the next call, and adds what was read and not delivered; returns where the
  /// source is behind it.
  [[nodiscard]] SourceProgress pause(PendingItems& out);
  /// Begins anew.
  void restart(StepBuilderStart start);

 private:
  // Throws Error{invalid_argument} where there is none: one that was to go on anew could not.
  [[nodiscard]] StepBuilder& builder() const;
  void push_all();
  void push();

  std::shared_ptr<const StreamSource> source_;
  const RecordLayout* layout_;
  DispatchPlan plan_;
  const StreamLoaderOptions* options_;
  std::deque<StepMessages> undelivered_;
  std::size_t pushed_ = 0;  // of these, to all ranks
  int next_rank_ = 1;       // for the next of them
  Arrival head_;
  mpi::SendQueue queue_;
  bool is_paused_ = true;
  bool has_failed_ = false;  // and what the caller has done since may have mended it
  std::unique_ptr<StepBuilder> builder_;
};

}  // namespace rota::internal
