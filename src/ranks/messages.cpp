#include "ranks/messages.hpp"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>

#include "ranks/collectives.hpp"

namespace rota::ranks {
namespace {

constexpr std::string_view kPhase = "take what rank 0 has read";

// Takes what comes from rank 0 into `bytes`, of `memory`.
std::unique_ptr<Operation> taking(std::shared_ptr<void> memory, std::span<std::byte> bytes) {
  return std::make_unique<Operation>(kPhase, std::move(memory), [bytes](Transport& by) {
    const auto ranks = static_cast<std::size_t>(by.size());
    Parts<std::byte> incoming(ranks);
    incoming.front() = bytes;
    return by.exchange(Parts<const std::byte>(ranks), std::move(incoming));
  });
}

}  // namespace

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

PushQueue::PushQueue(Communicator channel) : channel_(std::move(channel)) { require_ranks(channel_); }

void PushQueue::send(const std::vector<Message>& by_rank) {
  if (by_rank.size() == 1) return;
  struct Sent {
    std::vector<Message> messages;
    std::vector<std::int64_t> sizes = {};
  };
  const auto sent = std::make_shared<Sent>(Sent{.messages = by_rank});
  for (const Message& message : by_rank) sent->sizes.push_back(std::ssize(*message));
  Exchange& exchange = exchange_of(channel_);
  const auto send_parts = [&](const auto& part) {
    under_way_.push_back(std::make_unique<Operation>(kPhase, sent, [sent, part](Transport& to) {
      Parts<const std::byte> outgoing(sent->messages.size());
      for (std::size_t r = 1; r < outgoing.size(); ++r) outgoing[r] = part(*sent, r);
      return to.exchange(std::move(outgoing), Parts<std::byte>(sent->messages.size()));
    }));
    exchange.start(*under_way_.back());
  };
  exchange.in_step(kPhase, [&] {
    send_parts([](const Sent& of, std::size_t r) { return std::as_bytes(std::span(&of.sizes[r], 1)); });
    send_parts([](const Sent& of, std::size_t r) { return std::span<const std::byte>(*of.messages[r]); });
  });
}

void PushQueue::progress() {
  while (!under_way_.empty() && exchange_of(channel_).move(*under_way_.front())) under_way_.pop_front();
}

bool PushQueue::has_size() {
  if (!size_operation_) {
    size_ = std::make_shared<std::int64_t>();
    size_operation_ = taking(size_, std::as_writable_bytes(std::span(size_.get(), 1)));
  }
  return exchange_of(channel_).move(*size_operation_);
}

PushQueue::Message PushQueue::receive() {
  while (has_size()) {
    const auto message = memory_.take(static_cast<std::size_t>(*size_));
    coming_.push_back({.message = message, .operation = taking(message, *message)});
    size_operation_ = nullptr;
    exchange_of(channel_).start(*coming_.back().operation);
  }
  if (coming_.empty() || !exchange_of(channel_).move(*coming_.front().operation)) return nullptr;
  auto message = std::move(coming_.front().message);
  coming_.pop_front();
  return message;
}

}  // namespace rota::ranks
