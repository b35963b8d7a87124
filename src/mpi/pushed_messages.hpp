#pragma once

// Bytes that rank 0 pushes to other ranks ahead of their need, without waiting for them.

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "core/mutex.hpp"
#include "mpi/exchange.hpp"
#include "rota/mpi.hpp"

namespace rota::mpi {

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

/// What rank 0 has sent and MPI still reads. *One thread.*
class SendQueue {
 public:
  /// `comm` must outlive it and be used by nothing but it and the other ranks' ReceiveQueues.
  explicit SendQueue(const Communicator& comm) noexcept : comm_(&comm) {}
  /// Waits for nobody: what is under way keeps its memory for ever.
  ~SendQueue();
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;

  /// Begins to send `message`, which is not to change any more, behind those sent to `rank` before. Does not
  /// wait. Throws Error{io}, Error{out_of_range} beyond 2^31 - 1 bytes.
  void send(int rank, std::shared_ptr<const Bytes> message);
  /// Moves what is under way on, and lets go of what has been sent. Throws Error{io}.
  void progress();

 private:
  const Communicator* comm_;
  Requests requests_;
  std::vector<std::shared_ptr<const Bytes>> messages_;  // one for each request
  std::vector<int> done_;
};

/// What has come from rank 0, in order. *One thread.*
class ReceiveQueue {
 public:
  explicit ReceiveQueue(const Communicator& comm) noexcept : comm_(&comm) {}
  /// Waits for nobody, as ~SendQueue.
  ~ReceiveQueue();
  ReceiveQueue(const ReceiveQueue&) = delete;
  ReceiveQueue& operator=(const ReceiveQueue&) = delete;

  /// The next message, if all of it is here; null where it is not. Does not wait. Throws Error{io}, and
  /// std::bad_alloc, after which it may be asked for again.
  [[nodiscard]] std::shared_ptr<const Bytes> receive();

 private:
  struct Coming {
    std::shared_ptr<Bytes> message;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  const Communicator* comm_;
  MessageMemory memory_{4};  // as many batches as are read ahead by default
  std::deque<Coming> coming_;
};

}  // namespace rota::mpi
