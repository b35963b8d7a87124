#pragma once

// Messages that rank 0 pushes to the others ahead of their need. The receivers know who sends, and the size
// of a message comes before it.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "core/mutex.hpp"
#include "ranks/exchange.hpp"
#include "rota/communicator.hpp"

namespace rota::ranks {

using Bytes = std::vector<std::byte>;

/// Memory of messages that nobody has any more, kept for the next ones: to touch fresh memory takes longer
/// than to copy a message into it. Any thread; messages may outlive it.
class MessageMemory {
 public:
  /// Keeps at most `most` messages.
  explicit MessageMemory(std::size_t most);
  /// A message of `size` bytes, which may hold anything. Throws std::bad_alloc.
  [[nodiscard]] std::shared_ptr<Bytes> take(std::size_t size);

 private:
  struct Unused {
    internal::Mutex mutex;
    std::vector<std::unique_ptr<Bytes>> messages ROTA_GUARDED_BY(mutex);  // reserved to the most there may be
  };
  std::shared_ptr<Unused> unused_ = std::make_shared<Unused>();
};

/// Keeps what calls that are given up may still touch, for as long as the process lives.
void keep_for_ever(std::shared_ptr<const void> memory);

/// Messages from rank 0 to each other rank, in order. It waits for nobody, not in its destructor either: what
/// is under way keeps its memory for ever. *One thread.*
class PushQueue {
 public:
  using Message = std::shared_ptr<const Bytes>;

  /// `channel` is for it alone. Throws as Communicator::duplicate.
  explicit PushQueue(Communicator channel);

  [[nodiscard]] const Communicator& channel() const noexcept { return channel_; }

  /// On rank 0: begins to send `by_rank`, a message for each rank, which are not to change any more. Its own
  /// is not sent. Throws Error{io}.
  void send(const std::vector<Message>& by_rank);
  /// Moves what is under way on, and lets go of what has been sent. Throws Error{io}, RankLost.
  void progress();

  /// On the others: the next message, if all of it is here; null where it is not. Throws as `progress`, and
  /// std::bad_alloc, after which it may be asked for again.
  [[nodiscard]] Message receive();

 private:
  struct Coming {
    std::shared_ptr<Bytes> message;
    std::unique_ptr<Operation> operation;
  };
  bool has_size();

  Communicator channel_;
  std::deque<std::unique_ptr<Operation>> under_way_;  // of rank 0
  MessageMemory memory_{4};                           // as many batches as are read ahead by default
  std::shared_ptr<std::int64_t> size_;                // of the next message
  std::unique_ptr<Operation> size_operation_;
  std::deque<Coming> coming_;
};

}  // namespace rota::ranks
