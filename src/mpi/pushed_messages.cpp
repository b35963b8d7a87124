#include "mpi/pushed_messages.hpp"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

#include "mpi/collectives.hpp"
#include "mpi/tags.hpp"

namespace rota::mpi {
namespace {

// For one more, so that adding it cannot fail.
void make_place(auto& all) {
  if (all.size() == all.capacity()) all.reserve(2 * all.size() + 1);
}

}  // namespace

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
  for (auto& message : messages_) keep_for_ever(std::const_pointer_cast<Bytes>(std::move(message)));
}

void SendQueue::send(int rank, std::shared_ptr<const Bytes> message) {
  const int count = to_count(message->size());
  make_place(messages_);
  make_place(requests_);
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Isend(message->data(), count, MPI_BYTE, rank, kPushTag, comm_->get(), &request), "MPI_Isend");
  messages_.push_back(std::move(message));
  requests_.push_back(request);
}

void SendQueue::progress() {
  if (requests_.empty()) return;
  int count = 0;
  done_.resize(requests_.size());
  check(MPI_Testsome(to_count(requests_.size()), requests_.data(), &count, done_.data(), MPI_STATUSES_IGNORE),
        "MPI_Testsome");
  for (int i = 0; i < count; ++i)
    messages_[static_cast<std::size_t>(done_[static_cast<std::size_t>(i)])] = {};
  std::erase(requests_, MPI_REQUEST_NULL);
  std::erase(messages_, nullptr);
}

ReceiveQueue::~ReceiveQueue() {
  for (Coming& coming : coming_) keep_for_ever(std::move(coming.message));
}

std::shared_ptr<const Bytes> ReceiveQueue::receive() {
  for (;;) {
    int has_come = 0;
    MPI_Status status{};
    check(MPI_Iprobe(0, kPushTag, comm_->get(), &has_come, &status), "MPI_Iprobe");
    if (has_come == 0) break;
    int count = 0;
    check(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count");
    coming_.push_back({.message = memory_.take(static_cast<std::size_t>(count))});
    Coming& last = coming_.back();
    check(MPI_Irecv(last.message->data(), count, MPI_BYTE, 0, kPushTag, comm_->get(), &last.request),
          "MPI_Irecv");
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
