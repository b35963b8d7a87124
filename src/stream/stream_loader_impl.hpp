#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "loader/loop_watch.hpp"
#include "loader/settling.hpp"
#include "ranks/deferred_reduction.hpp"
#include "rota/stream_loader.hpp"
#include "stream/dispatch_feed.hpp"
#include "stream/shard_feed.hpp"
#include "stream/stream_facts.hpp"

namespace rota {
namespace internal {

/// How far a run over streams has come; the same on all ranks.
struct StreamRun {
  Position position;
  std::int64_t epoch_began = 0;  // at this step
};

}  // namespace internal

/// What is behind a StreamLoader: the agreement on steps, and one of two feeds.
class StreamLoader::Impl {
 public:
  Impl(const Communicator& comm, std::shared_ptr<const StreamSource> source, StreamLoaderOptions options);
  Impl(const Communicator& comm, const Dispatch& dispatch, StreamLoaderOptions options);
  NextBatch next();
  /// As Loader::begin_for.
  void begin_for();
  /// **Collective.** What `make` makes on each rank, in order of rank, on every rank. Throws on all ranks
  /// what it throws on one, Error{timeout}, and Error{out_of_range} from 2 GiB on.
  [[nodiscard]] std::vector<std::string> gather(const std::function<std::string()>& make);
  /// Goes on from `run`, once its feed has. All ranks do so at the same step.
  void restart(const internal::StreamRun& run);
  /// What its source said when the loader was made.
  [[nodiscard]] const internal::StreamFacts& facts() const noexcept { return facts_; }
  [[nodiscard]] const internal::StreamRun& run() const noexcept { return run_; }
  [[nodiscard]] const std::shared_ptr<internal::Settling>& settling() const noexcept { return settling_; }
  /// What it is fed by, one of the two; null for the other.
  [[nodiscard]] internal::ShardFeed* shards() const noexcept { return shards_.get(); }
  [[nodiscard]] internal::DispatchFeed* dispatch() const noexcept { return dispatch_.get(); }

 private:
  friend class StreamLoader;
  template <typename Check>
  Impl(const Communicator& comm, std::string_view kind, StreamLoaderOptions options, Check check);
  [[nodiscard]] const Communicator& comm() const noexcept { return agreement_.comm(); }
  [[nodiscard]] World world() const noexcept { return comm().world(); }
  [[nodiscard]] bool is_end() const noexcept { return is_over_ || run_.position.epoch >= options_.epochs; }
  [[nodiscard]] std::string described() const;
  template <typename Make>
  void start(Make make_feed);
  [[nodiscard]] internal::Feed& feed() const noexcept {
    return shards_ ? static_cast<internal::Feed&>(*shards_) : *dispatch_;
  }
  [[nodiscard]] bool has_coming() const noexcept { return dispatch_ && dispatch_->coming() > 0; }
  [[nodiscard]] std::int64_t agree();
  [[noreturn]] void fail();
  Batch deliver(std::int64_t epoch);
  Batch deliver_again();
  void end_epoch();
  void set_quiet(bool is_quiet) noexcept;

  std::shared_ptr<const StreamSource> source_;
  internal::StreamFacts facts_;  // of it
  StreamLoaderOptions options_;
  std::shared_ptr<internal::Settling> settling_ =  // with threads of Python's, which settle
      std::make_shared<internal::Settling>(options_.settle, internal::Ledger::kAnyBytes, options_.open_bytes);
  Fingerprint fingerprint_;
  ranks::DeferredReduction agreement_;
  Communicator states_comm_;  // apart, for on the other a step may have been begun
  internal::StreamRun run_;
  bool is_over_ = false;           // an epoch had no samples
  bool was_moved_ = false;         // since the last `for` began
  std::int64_t agreed_steps_ = 0;  // steps of this epoch for which no rank is asked
  bool is_elsewhere_ = false;      // what ranks may have said of a step before does not count
  internal::LoopWatch watch_;
  std::shared_ptr<internal::BatchPool> pool_;
  std::unique_ptr<internal::ShardFeed> shards_;
  std::unique_ptr<internal::DispatchFeed> dispatch_;
};

}  // namespace rota
