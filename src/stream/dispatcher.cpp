#include "stream/dispatcher.hpp"

#include <algorithm>
#include <utility>

namespace rota::internal {

Dispatcher::Dispatcher(std::shared_ptr<const StreamSource> source, const RecordLayout& layout,
                       const DispatchPlan& plan, const StreamLoaderOptions& options,
                       const mpi::Communicator& line)
    : source_(std::move(source)), layout_(&layout), plan_(plan), options_(&options), outbox_(line) {
  go_on({});
}

const Arrival* Dispatcher::peek() {
  push_all();
  if (undelivered_.empty()) return nullptr;
  const Bundle& bundle = undelivered_.front();
  head_ = {.parcel = bundle.parcels.front(), .error = bundle.error};
  return &head_;
}

const Arrival& Dispatcher::wait() {
  push_all();
  if (undelivered_.empty()) push(bundler_->wait());
  return *peek();
}

void Dispatcher::drop() {
  has_failed_ = undelivered_.front().error != nullptr;
  bundler_->drop(undelivered_.front());
  undelivered_.pop_front();
}

// What has come to be there since the last call.
void Dispatcher::push_all() {
  if (std::exchange(has_failed_, false)) bundler_->retry();
  if (std::exchange(is_held_, false)) bundler_->go_on();
  while (auto bundle = bundler_->poll()) push(*std::move(bundle));
  outbox_.progress();
}

void Dispatcher::push(Bundle bundle) {
  undelivered_.push_back(std::move(bundle));
  const auto& parcels = undelivered_.back().parcels;
  for (std::size_t rank = 1; rank < parcels.size(); ++rank) {
    outbox_.send(static_cast<int>(rank), parcels[rank]);
  }
}

SourcePlace Dispatcher::hold(PendingItems& out) {
  is_held_ = true;
  bundler_->hold();
  for (const Bundle& bundle : undelivered_) bundler_->add_items(bundle, out);
  return bundler_->add_pending(out);
}

void Dispatcher::go_on(BundlerStart start) {
  bundler_.reset();
  undelivered_.clear();
  is_held_ = true;
  has_failed_ = false;
  bundler_.emplace(*source_, *layout_, plan_, *options_, std::move(start));
}

void Dispatcher::add_stats(LoaderStats& stats) const {
  bundler_->add_stats(stats);
  stats.ready_batches += std::ranges::count_if(undelivered_, &Bundle::is_batch);
}

}  // namespace rota::internal
