#include "stream/dispatcher.hpp"

#include <algorithm>
#include <utility>

#include "rota/error.hpp"

namespace rota::internal {

Dispatcher::Dispatcher(std::shared_ptr<const StreamSource> source, const RecordLayout& layout,
                       const DispatchPlan& plan, const StreamLoaderOptions& options,
                       const mpi::Communicator& channel)
    : source_(std::move(source)), layout_(&layout), plan_(plan), options_(&options), queue_(channel) {
  restart({});
}

const Arrival* Dispatcher::peek() {
  push_all();
  if (undelivered_.empty()) return nullptr;
  const StepMessages& messages = undelivered_.front();
  head_ = {.message = messages.by_rank.front(), .error = messages.error};
  return &head_;
}

const Arrival& Dispatcher::wait() {
  push_all();
  if (undelivered_.empty()) undelivered_.push_back(builder().wait());
  return *peek();
}

void Dispatcher::drop() {
  has_failed_ = undelivered_.front().error != nullptr;
  builder().drop(undelivered_.front());
  undelivered_.pop_front();
  --pushed_;
}

// What has come to be there since the last call.
void Dispatcher::push_all() {
  if (std::exchange(has_failed_, false)) builder().retry();
  if (std::exchange(is_paused_, false)) builder().resume();
  while (auto messages = builder().poll()) undelivered_.push_back(*std::move(messages));
  push();
  queue_.progress();
}

// Where it throws it goes on there when it is called again.
void Dispatcher::push() {
  for (; pushed_ < undelivered_.size(); ++pushed_, next_rank_ = 1) {
    const auto& messages = undelivered_[pushed_].by_rank;
    for (; next_rank_ < std::ssize(messages); ++next_rank_) {
      queue_.send(next_rank_, messages[static_cast<std::size_t>(next_rank_)]);
    }
  }
}

SourceProgress Dispatcher::pause(PendingItems& out) {
  is_paused_ = true;
  builder().pause();
  for (const StepMessages& messages : undelivered_) builder().add_items(messages, out);
  return builder().add_pending(out);
}

void Dispatcher::restart(StepBuilderStart start) {
  builder_ = nullptr;
  undelivered_.clear();
  pushed_ = 0;
  next_rank_ = 1;
  is_paused_ = true;
  has_failed_ = false;
  builder_ = std::make_unique<StepBuilder>(*source_, *layout_, plan_, *options_, std::move(start));
}

StepBuilder& Dispatcher::builder() const {
  if (builder_) return *builder_;
  throw Error(ErrorCode::invalid_argument,
              "go on with a dispatch: it could not be restored; restore it again, or make it anew");
}

void Dispatcher::add_stats(LoaderStats& stats) const {
  builder().add_stats(stats);
  stats.ready_batches += std::ranges::count_if(undelivered_, &StepMessages::is_batch);
}

}  // namespace rota::internal
