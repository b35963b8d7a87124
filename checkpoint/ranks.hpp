#pragma once

// The ranks that save or restore together: phases that end in an agreement, and exchanges of any size.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "mpi/exchange.hpp"
#include "mpi/relay.hpp"
#include "rota/mpi.hpp"

namespace rota::checkpoint {

/// A duplicate of the caller's communicator, and a deadline for ranks that do not arrive. Once one was
/// missed, all calls throw Error{timeout}, at once. Without MPI where `comm` is a world of one that needs
/// none. *One thread* at a time.
class Ranks {
 public:
  /// **Collective.**
  Ranks(const mpi::Communicator& comm, std::chrono::milliseconds deadline);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  [[nodiscard]] int rank() const noexcept { return comm_.rank(); }
  [[nodiscard]] int size() const noexcept { return comm_.size(); }
  [[nodiscard]] bool is_root() const noexcept { return rank() == 0; }

  /// Whether this rank writes back for its node, which is not rank 0's; and whether there is any such rank.
  [[nodiscard]] bool syncs_node() const noexcept { return syncs_node_; }
  [[nodiscard]] bool has_other_nodes() const noexcept { return has_other_nodes_; }

  /// Completes operations, for the thread that may call MPI.
  [[nodiscard]] mpi::Exchange& operations() noexcept { return exchange_; }
  /// From now on operations go through `relay`, from a thread of which this is then; nullptr: no more.
  void go_through(mpi::Relay* relay) noexcept { relay_ = relay; }

  /// **Collective.** As mpi::agree with the deadline; what is thrown is always an Error.
  void agree(std::string_view phase, std::exception_ptr error);
  /// **Collective.** Runs `work` on every rank, then agrees.
  template <typename Work>
  void together(std::string_view phase, Work&& work) {
    std::exception_ptr error;
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
    agree(phase, error);
  }
  /// **Collective.** Runs `work` on rank 0, then agrees.
  template <typename Work>
  void at_root(std::string_view phase, Work&& work) {
    together(phase, [&] {
      if (is_root()) work();
    });
  }

  /// **Collective.** Prepares for `block`.
  void allow_blocking();
  /// **Collective.** Runs `work`, which blocks in calls of MPI over the communicator that it is given, on a
  /// thread of its own, until the deadline. What `work` throws is thrown; it is to own all that it uses, for
  /// it is left behind where the deadline is missed. Needs MPI_THREAD_MULTIPLE where there is more than one
  /// rank. Not to be called twice at a time.
  void block(std::string_view phase, std::function<void(MPI_Comm)> work);

  /// **Collective.** Rank 0's bytes on all ranks.
  [[nodiscard]] std::string broadcast(std::string bytes);
  /// **Collective.** Rank 0's `value` on all ranks.
  template <typename T>
  void broadcast(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    broadcast_bytes(std::as_writable_bytes(std::span(&value, 1)));
  }
  /// **Collective.** Every rank's `values`, as many on each, in order of rank, on every rank.
  template <typename T>
  [[nodiscard]] std::vector<T> gather(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> all(values.size() * static_cast<std::size_t>(size()));
    gather_bytes(std::as_bytes(values), std::as_writable_bytes(std::span(all)));
    return all;
  }
  /// **Collective.** Every rank's `bytes`, in order of rank, on rank 0; nothing on others.
  [[nodiscard]] std::vector<std::byte> gather_at_root(std::span<const std::byte> bytes);
  /// **Collective.** Sums modulo 2^64, in place.
  void sum(std::span<std::uint64_t> values);
  /// **Collective.** `outgoing[r]` goes to rank r; returns what came from each rank.
  [[nodiscard]] std::vector<std::vector<std::byte>> exchange(std::vector<std::vector<std::byte>> outgoing);

 private:
  void find_nodes();
  void run(mpi::Operation& operation);
  void run(std::string_view what, std::shared_ptr<void> memory, mpi::Operation::Start start);
  void broadcast_bytes(std::span<std::byte> bytes);
  void gather_bytes(std::span<const std::byte> own, std::span<std::byte> all);

  mpi::Communicator comm_;
  mpi::Communicator io_;  // for calls that block; without a topology, which could mislead MPI-IO
  mpi::Exchange exchange_;
  mpi::Relay* relay_ = nullptr;
  bool syncs_node_ = false;
  bool has_other_nodes_ = false;
};

}  // namespace rota::checkpoint
