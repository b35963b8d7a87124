#pragma once

// The ranks that save or restore together: phases that end in an agreement, and exchanges of any size.

#include <atomic>
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

#include "mpi/caller_thread.hpp"
#include "mpi/exchange.hpp"
#include "rota/mpi.hpp"

namespace rota::checkpoint {

/// A duplicate of the caller's communicator, and a deadline for ranks that do not arrive. Once one was
/// missed, all calls throw Error{timeout}, at once. Without MPI where `comm` is a world of one that needs
/// none. *One thread* at a time.
class Collectives {
 public:
  /// **Collective.**
  Collectives(const mpi::Communicator& comm, std::chrono::milliseconds deadline);
  ~Collectives();
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  [[nodiscard]] int rank() const noexcept { return comm_.rank(); }
  [[nodiscard]] int size() const noexcept { return comm_.size(); }
  [[nodiscard]] bool is_root() const noexcept { return rank() == 0; }

  /// Whether this rank writes back for its node, which is not rank 0's; and whether there is any such rank.
  [[nodiscard]] bool syncs_node() const noexcept { return syncs_node_; }
  [[nodiscard]] bool has_other_nodes() const noexcept { return has_other_nodes_; }

  /// Completes operations, for the thread that may call MPI.
  [[nodiscard]] mpi::Exchange& operations() noexcept { return exchange_; }
  /// From now on operations go through `caller`, from a thread of which this is then; nullptr: no more.
  void go_through(mpi::CallerThread* caller) noexcept { caller_ = caller; }

  /// **Collective.** As mpi::agree with the deadline; what is thrown is always an Error: after a missed
  /// deadline `error` itself, if it says so.
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

  /// **Collective.** Rank 0's `value`, or the values of a string or a vector, on all ranks.
  template <typename T>
  void broadcast(T& value) {
    if constexpr (std::is_trivially_copyable_v<T>) {
      broadcast_bytes(std::as_writable_bytes(std::span(&value, 1)));
    } else {
      std::size_t count = value.size();
      broadcast(count);
      value.resize(count);
      broadcast_bytes(std::as_writable_bytes(std::span(value)));
    }
  }
  /// **Collective.** Every rank's `values`, as many on each, in order of rank, on every rank.
  template <typename T>
  [[nodiscard]] std::vector<T> gather(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (size() == 1) return {values.begin(), values.end()};
    std::vector<T> all(values.size() * static_cast<std::size_t>(size()));
    gather_bytes(std::as_bytes(values), std::as_writable_bytes(std::span(all)));
    return all;
  }
  /// **Collective.** Sums modulo 2^64, in place.
  void sum(std::span<std::uint64_t> values);
  /// A message to or from each rank.
  using Messages = std::vector<std::vector<std::byte>>;
  /// **Collective.** Runs `fill` on every rank, and agrees; what it puts into message r, of as many as there
  /// are ranks, goes to rank r. Returns what came from each rank.
  [[nodiscard]] Messages exchange(std::string_view phase, const std::function<void(Messages&)>& fill);

 private:
  void find_nodes();
  void run(mpi::Operation& operation);
  void run(std::string_view what, std::shared_ptr<void> memory, mpi::Operation::Start start);
  // Runs `work`, which exchanges something, unless this rank is alone; where it throws on this rank alone,
  // this rank exchanges nothing any more.
  template <typename Work>
  void in_step(Work&& work);
  void broadcast_bytes(std::span<std::byte> bytes);
  void gather_bytes(std::span<const std::byte> own, std::span<std::byte> all);

  mpi::Communicator comm_;
  mpi::Exchange exchange_;
  mpi::CallerThread* caller_ = nullptr;
  std::atomic<bool> is_late_ = false;         // a deadline was missed
  std::atomic<bool> is_out_of_step_ = false;  // an exchange failed on this rank alone
  bool syncs_node_ = false;
  bool has_other_nodes_ = false;
};

}  // namespace rota::checkpoint
