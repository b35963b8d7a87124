#pragma once

// Messages between two ranks, without waiting for them: bytes that rank 0 pushes to others ahead of their
// need, for one. The receiver knows who sends. Each message is two of MPI's: its size, and its bytes.

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <vector>

#include "core/mutex.hpp"
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

/// The kinds of messages, so that none is taken for another.
enum Tag : int { kPushTag = 32'000, kControlTag, kExchangeTag };

/// Keeps what calls that are given up may still touch, for as long as the process lives.
void keep_for_ever(std::shared_ptr<const void> memory);

/// What this rank has sent and MPI still reads. *One thread.*
class SendQueue {
 public:
  /// `comm` must outlive it. What it sends is for the ReceiveQueues of the same tag.
  explicit SendQueue(MPI_Comm comm, Tag tag) noexcept : comm_(comm), tag_(tag) {}
  explicit SendQueue(const Communicator& comm) noexcept : SendQueue(comm.get(), kPushTag) {}
  /// Waits for nobody: what is under way keeps its memory for ever.
  ~SendQueue();
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;

  /// Begins to send `message`, which is not to change any more, behind those sent to `rank` before. Does not
  /// wait. Throws Error{io}, Error{out_of_range} beyond 2^31 - 1 bytes.
  void send(int rank, std::shared_ptr<const Bytes> message);
  /// Moves what is under way on, and lets go of what has been sent. Throws Error{io}.
  void progress();
  [[nodiscard]] bool is_empty() const noexcept { return under_way_.empty(); }

 private:
  struct Sent {
    std::shared_ptr<const Bytes> message;
    std::int64_t size = 0;
    std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  };
  MPI_Comm comm_;
  Tag tag_;
  std::list<std::shared_ptr<Sent>> under_way_;
};

/// What has come from one rank, in order. *One thread.*
class ReceiveQueue {
 public:
  ReceiveQueue(MPI_Comm comm, int from, Tag tag) noexcept : comm_(comm), from_(from), tag_(tag) {}
  /// From rank 0.
  explicit ReceiveQueue(const Communicator& comm) noexcept : ReceiveQueue(comm.get(), 0, kPushTag) {}
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
  MPI_Comm comm_;
  int from_;
  Tag tag_;
  int maker_ = internal::this_process();
  MessageMemory memory_{4};  // as many batches as are read ahead by default
  std::int64_t size_ = 0;    // of the next message
  MPI_Request size_request_ = MPI_REQUEST_NULL;
  bool is_size_asked_ = false;
  std::deque<Coming> coming_;
};

}  // namespace rota::mpi
