#pragma once

#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "loader/settling.hpp"
#include "ranks/deferred_reduction.hpp"
#include "ranks/messages.hpp"
#include "rota/communicator.hpp"
#include "rota/stream_loader.hpp"
#include "stream/feed.hpp"
#include "stream/step_builder.hpp"

namespace rota::internal {

/// Throws Error{invalid_argument} for options that no dispatch can have, and for no source on rank 0.
void check(const Dispatch& dispatch, const World& world);

/// **Collective.** What a dispatch is, on all ranks: its fields, shards, cursor numbers and fingerprint, as
/// rank 0's source has them. It cannot be opened. Throws on all ranks what
/// `ask_facts` throws, and Error{invalid_argument} for a source of more than one shard.
std::shared_ptr<const StreamSource> describe(const Dispatch& dispatch, const Communicator& comm);

/// Batches of items that rank 0 reads with a StepBuilder. What that makes is pushed to the other ranks as
/// soon as rank 0's caller comes by, and is kept on rank 0 until it is delivered.
class DispatchFeed final : public Feed {
 public:
  /// `channel` is for messages alone. The others must outlive it; by the deadline of `agreement` it waits.
  DispatchFeed(const Dispatch& dispatch, BatchPool& pool, const StreamLoaderOptions& options,
               const Settling& settling, ranks::DeferredReduction& agreement, Communicator channel);
  ~DispatchFeed() override;

  [[nodiscard]] std::optional<FeedHead> peek() override;
  [[nodiscard]] FeedHead wait() override;
  std::unique_ptr<BatchMemory> take() override;
  void set_quiet(bool is_quiet) noexcept override { is_quiet_ = is_quiet; }
  void add_stats(LoaderStats& stats) const override;

  [[nodiscard]] const DispatchPlan& plan() const noexcept { return plan_; }
  [[nodiscard]] const RecordLayout& layout() const noexcept { return layout_; }
  /// Items of this epoch that were delivered, over all ranks.
  [[nodiscard]] std::int64_t delivered() const noexcept { return delivered_; }
  /// On rank 0 only: pauses the reading until the next call, and adds what was read and not delivered;
  /// returns where the source is behind it.
  [[nodiscard]] SourceProgress pause(KeptSamples& out);
  /// Items that were handed out before come again, before all else; the same ones are said on all ranks.
  void come_again(KeptSamples items);
  /// Batches that do; those of other ranks, too.
  [[nodiscard]] std::int64_t coming() const noexcept { return std::ssize(coming_); }
  [[nodiscard]] std::unique_ptr<BatchMemory> make_coming() const;
  /// It is handed out, as it was made.
  void pass_coming(BatchMemory& batch);
  /// Items of this rank that are open, or come again. A state has them.
  [[nodiscard]] KeptSamples open_items() const;
  [[nodiscard]] bool keeps_open_items() const noexcept { return settling_->is_by_hand() || coming() > 0; }
  /// Another restore begins; on all ranks equally many do.
  void count_restore() noexcept { ++restores_; }
  /// It ends well: goes on from `start`. What is on its way is dropped.
  void restart(DispatchStart start);

 private:
  // The step in front, taken out of its message.
  struct OpenedStep {
    FeedHead head;
    std::unique_ptr<BatchMemory> batch;
    KeptSamples items;  // of this rank, where they are kept
    std::exception_ptr error;
  };
  void move_on();
  void collect();
  void receive();
  FeedHead open();
  [[nodiscard]] std::unique_ptr<BatchMemory> decode(const StepMessages& step, KeptSamples& kept_ones) const;
  [[nodiscard]] std::unique_ptr<BatchMemory> make_batch(SampleNames items,
                                                        std::span<const ByteSpan> records) const;
  void hand_out(BatchMemory& batch, KeptSamples items) const;
  // On rank 0. Throws Error{invalid_argument} where there is none: one that was to go on anew could not.
  [[nodiscard]] StepBuilder& builder() const;

  const std::shared_ptr<const StreamSource> source_;  // on rank 0
  BatchPool* pool_;
  const StreamLoaderOptions* options_;
  const Settling* settling_;
  const RecordLayout layout_;
  const DispatchPlan plan_;
  ranks::DeferredReduction* agreement_;
  const int rank_;
  ranks::PushQueue messages_;

  std::int64_t restores_ = 0;
  std::int64_t generation_ = 0;  // the restore that it goes on from
  std::int64_t epoch_ = 0;
  std::int64_t delivered_ = 0;
  std::deque<StepMessages> undelivered_;  // of this rank, or of all on rank 0; the next in front
  std::optional<OpenedStep> next_;
  std::deque<KeptSamples> coming_;  // of each batch that comes again, those of this rank
  bool is_quiet_ = true;
  // On rank 0:
  std::size_t pushed_ = 0;  // undelivered steps that all ranks were sent
  std::unique_ptr<StepBuilder> builder_;
};

}  // namespace rota::internal
