#include "mpi/messages.hpp"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <mutex>
#include <utility>

#include "mpi/collectives.hpp"

namespace rota::mpi {

void keep_for_ever(std::shared_ptr<const void> memory) {
  static std::mutex mutex;
  static std::vector<std::shared_ptr<const void>> kept;
  const std::scoped_lock lock(mutex);
  kept.push_back(std::move(memory));
}

MessageMemory::MessageMemory(std::size_t most) {
  assert(most > 0);
  const internal::MutexLock lock(unused_->mutex);
  unused_->messages.reserve(most);
}

std::shared_ptr<Bytes> MessageMemory::take(std::size_t size) {
  const std::size_t wanted = size + size / 8;  // so that messages of nearly one size can have it
  const auto fits = [&](const std::unique_ptr<Bytes>& message) {
    return message->capacity() >= size && message->capacity() <= wanted + wanted / 8;
  };
  std::unique_ptr<Bytes> message;
  {
    const internal::MutexLock lock(unused_->mutex);
    auto& messages = unused_->messages;
    const auto found = std::find_if(messages.rbegin(), messages.rend(), fits);  // the last is in the cache
    if (found != messages.rend()) {
      message = std::move(*found);
      messages.erase(std::prev(found.base()));
    } else if (messages.size() == messages.capacity()) {
      messages.erase(messages.begin());
    }
  }
  if (message == nullptr) {
    message = std::make_unique<Bytes>();
    message->reserve(wanted);
  }
  message->resize(size);
  const auto give_back = [unused = unused_](Bytes* bytes) {
    std::unique_ptr<Bytes> over(bytes);
    const internal::MutexLock lock(unused->mutex);
    auto& messages = unused->messages;
    if (messages.size() < messages.capacity()) messages.push_back(std::move(over));
  };
  return {message.release(), give_back};
}

SendQueue::~SendQueue() {
  for (auto& sent : under_way_) keep_for_ever(std::move(sent));
}

void SendQueue::send(int rank, std::shared_ptr<const Bytes> message) {
  const int count = to_count(message->size());
  Sent& sent = *under_way_.emplace_back(std::make_shared<Sent>());
  sent.message = std::move(message);
  sent.size = count;
  check(MPI_Isend(&sent.size, 1, MPI_INT64_T, rank, tag_, comm_, &sent.requests[0]), "MPI_Isend");
  check(MPI_Isend(sent.message->data(), count, MPI_BYTE, rank, tag_, comm_, &sent.requests[1]), "MPI_Isend");
}

void SendQueue::progress() {
  std::erase_if(under_way_, [](const std::shared_ptr<Sent>& sent) {
    int is_done = 0;
    check(MPI_Testall(2, sent->requests.data(), &is_done, MPI_STATUSES_IGNORE), "MPI_Testall");
    return is_done != 0;
  });
}

ReceiveQueue::~ReceiveQueue() {
  for (Coming& coming : coming_) keep_for_ever(std::move(coming.message));
  if (size_request_ == MPI_REQUEST_NULL || maker_ != internal::this_process() || !is_running()) return;
  MPI_Cancel(&size_request_);
  MPI_Wait(&size_request_, MPI_STATUS_IGNORE);
}

std::shared_ptr<const Bytes> ReceiveQueue::receive() {
  for (;;) {
    if (!std::exchange(is_size_asked_, true)) {
      check(MPI_Irecv(&size_, 1, MPI_INT64_T, from_, tag_, comm_, &size_request_), "MPI_Irecv");
    }
    int has_come = 0;
    check(MPI_Test(&size_request_, &has_come, MPI_STATUS_IGNORE), "MPI_Test");
    if (has_come == 0) break;
    coming_.push_back({.message = memory_.take(static_cast<std::size_t>(size_))});
    Coming& last = coming_.back();
    check(
        MPI_Irecv(last.message->data(), static_cast<int>(size_), MPI_BYTE, from_, tag_, comm_, &last.request),
        "MPI_Irecv");
    is_size_asked_ = false;
  }
  if (coming_.empty()) return nullptr;
  int is_done = 0;
  check(MPI_Test(&coming_.front().request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
  if (is_done == 0) return nullptr;
  auto message = std::move(coming_.front().message);
  coming_.pop_front();
  return message;
}

}  // namespace rota::mpi
