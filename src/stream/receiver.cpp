#include "stream/receiver.hpp"

#include <algorithm>
#include <new>

#include "rota/error.hpp"

namespace rota::internal {

const Arrival* Receiver::peek() {
  try {
    take_all();
  } catch (const std::bad_alloc&) {
    if (arrived_.empty()) arrived_.push_back({.message = nullptr, .error = std::current_exception()});
  }
  return arrived_.empty() ? nullptr : &arrived_.front();
}

const Arrival& Receiver::wait() {
  agreement_->await([this] { return peek() != nullptr; });
  return arrived_.front();
}

void Receiver::take_all() {
  while (RankMessage message = queue_.receive()) {
    const MessageHead head = head_of(message);
    if (head.generation != generation_) continue;
    std::exception_ptr error;
    if (head.is(FeedHead::Kind::failed)) {
      error = std::make_exception_ptr(Error(ErrorCode::io, "take items of a dispatch: rank 0 has failed"));
    }
    arrived_.push_back({.message = std::move(message), .error = error});
  }
}

void Receiver::restart(std::int64_t generation) {
  generation_ = generation;
  arrived_.clear();
}

void Receiver::add_stats(LoaderStats& stats) const {
  stats.ready_batches += std::ranges::count_if(arrived_, [](const Arrival& arrival) {
    return arrival.message && head_of(arrival.message).is(FeedHead::Kind::batch);
  });
}

}  // namespace rota::internal
