#pragma once

#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <vector>

#include "stream/feed.hpp"
#include "stream/record_layout.hpp"

namespace rota::internal {

using RankMessage = std::shared_ptr<const std::vector<std::byte>>;

/// What a message begins with; the records of a rank's items in a batch follow, in canonical order.
struct MessageHead {
  std::int64_t generation = 0;  // the restore that the loader goes on from
  std::int64_t kind = 0;        // a FeedHead::Kind
  std::int64_t epoch = 0;       // of the items
  std::int64_t first = 0;       // number of the batch's first item in the epoch
  std::int64_t count = 0;       // items of the batch, over all ranks
  [[nodiscard]] bool is(FeedHead::Kind other) const noexcept {
    return kind == static_cast<std::int64_t>(other);
  }
};

/// Of a message that comes from this program.
inline MessageHead head_of(const RankMessage& message) noexcept {
  MessageHead head;
  std::memcpy(&head, message->data(), sizeof(head));
  return head;
}
inline ByteSpan records_of(const RankMessage& message) noexcept {
  return ByteSpan(*message).subspan(sizeof(MessageHead));
}

/// A message that is here, or why there is none.
struct Arrival {
  RankMessage message;
  std::exception_ptr error;
};

/// The messages of one rank, in order. *One thread.*
class MessageChannel {
 public:
  MessageChannel() = default;
  virtual ~MessageChannel() = default;
  MessageChannel(const MessageChannel&) = delete;
  MessageChannel& operator=(const MessageChannel&) = delete;

  /// The next one, if it is here; else null. It stays the next one until it is dropped.
  [[nodiscard]] virtual const Arrival* peek() = 0;
  /// The next one. Blocks. Throws what waiting for other ranks throws.
  [[nodiscard]] virtual const Arrival& wait() = 0;
  /// What `peek` gave is of no use any more: it was delivered, or was an error and was told.
  virtual void drop() = 0;
  virtual void add_stats(LoaderStats& stats) const = 0;
};

}  // namespace rota::internal
