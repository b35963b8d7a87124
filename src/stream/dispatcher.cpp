#include "stream/dispatcher.hpp"

#include <algorithm>
#include <utility>

#include "rota/error.hpp"

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
  if (undelivered_.empty()) undelivered_.push_back(bundler().wait());
  return *peek();
}

void Dispatcher::drop() {
  has_failed_ = undelivered_.front().error != nullptr;
  bundler().drop(undelivered_.front());
  undelivered_.pop_front();
  --pushed_;
}

// What has come to be there since the last call.
void Dispatcher::push_all() {
  if (std::exchange(has_failed_, false)) bundler().retry();
  if (std::exchange(is_held_, false)) bundler().go_on();
  while (auto bundle = bundler().poll()) undelivered_.push_back(*std::move(bundle));
  push();
  outbox_.progress();
}

// Where it throws it goes on there when it is called again.
void Dispatcher::push() {
  for (; pushed_ < undelivered_.size(); ++pushed_, next_rank_ = 1) {
    const auto& parcels = undelivered_[pushed_].parcels;
    for (; next_rank_ < std::ssize(parcels); ++next_rank_) {
      outbox_.send(next_rank_, parcels[static_cast<std::size_t>(next_rank_)]);
    }
  }
}

SourcePlace Dispatcher::hold(PendingItems& out) {
  is_held_ = true;
  bundler().hold();
  for (const Bundle& bundle : undelivered_) bundler().add_items(bundle, out);
  return bundler().add_pending(out);
}

void Dispatcher::go_on(BundlerStart start) {
  bundler_ = nullptr;
  undelivered_.clear();
  pushed_ = 0;
  next_rank_ = 1;
  is_held_ = true;
  has_failed_ = false;
  bundler_ = std::make_unique<Bundler>(*source_, *layout_, plan_, *options_, std::move(start));
}

Bundler& Dispatcher::bundler() const {
  if (bundler_) return *bundler_;
  throw Error(ErrorCode::invalid_argument,
              "go on with a dispatch: it could not be restored; restore it again, or make it anew");
}

void Dispatcher::add_stats(LoaderStats& stats) const {
  bundler().add_stats(stats);
  stats.ready_batches += std::ranges::count_if(undelivered_, &Bundle::is_batch);
}

}  // namespace rota::internal
