#pragma once

// What rota's own code does with other ranks, beyond what rota/communicator.hpp has for programs. All of it
// waits until the communicator's deadline. What has a phase may begin a public call: ranks whose phases
// differ throw Error{mismatch}, which names who is in which. The rest follows such a one.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ranks/transport.hpp"
#include "rota/communicator.hpp"

namespace rota::ranks {

class Exchange;

/// Of all ranks that this process's launcher runs together, as far as MPI knows: a world of one where it does
/// not run. Not collective. (src/mpi)
[[nodiscard]] World job_world();

/// Throws Error{invalid_argument} where `comm` was moved from, Error{unsupported} in a forked child.
void require_ranks(const Communicator& comm);
/// Whether this is its only rank. Throws as `require_ranks`.
[[nodiscard]] bool is_alone(const Communicator& comm);
/// Says whether what it runs on has ended; null where it runs on nothing that ends.
[[nodiscard]] Transport::HasEnded end_of(const Communicator& comm) noexcept;
[[nodiscard]] inline bool has_ended(const Communicator& comm) noexcept {
  const Transport::HasEnded end = end_of(comm);
  return end != nullptr && end();
}
/// What is behind it, unless it is a process alone. Throws as `require_ranks`.
[[nodiscard]] Exchange& exchange_of(const Communicator& comm);
/// A sign of progress for ranks that wait for this one: their deadline runs anew. Cheap; not collective. It
/// is for where work really goes on, never for a timer.
void show_progress(const Communicator& comm);

/// Ends a phase. **Collective.** Returns if no rank has an `error`. Otherwise every rank throws the error of
/// the lowest failing rank, with "rank r: " before its message.
void agree(const Communicator& comm, std::string_view phase, const std::exception_ptr& error);
void agree(Exchange& exchange, std::string_view phase, const std::exception_ptr& error);

/// Returns rank 0's `value` on every rank: a string, a vector or a value of plain bytes. **Collective.**
template <typename T>
[[nodiscard]] T broadcast(const Communicator& comm, T value);
/// In place.
void broadcast_bytes(const Communicator& comm, std::span<std::byte> value);

/// Runs `work` on rank 0, then agrees. Returns what it returns, on every rank. **Collective.**
template <typename Work>
auto on_first_rank(const Communicator& comm, std::string_view phase, Work&& work);

/// Every rank's `mine`, in order of rank, on every rank. **Collective.**
[[nodiscard]] std::vector<std::string> all_gather(const Communicator& comm, std::string_view phase,
                                                  std::string mine);
/// The same of as many values on each rank.
template <typename T>
[[nodiscard]] std::vector<T> all_gather(const Communicator& comm, std::span<const T> mine);
[[nodiscard]] std::vector<std::int64_t> all_gather(const Communicator& comm, std::int64_t mine);

/// A message to or from each rank.
using Messages = std::vector<std::vector<std::byte>>;
/// Runs `fill` on every rank, and agrees; what it puts into message r, of as many as there are ranks, goes to
/// rank r. Returns what came from each rank. **Collective.**
[[nodiscard]] Messages exchange(const Communicator& comm, std::string_view phase,
                                const std::function<void(Messages&)>& fill);

/// Element-wise, in place; `what` is what errors say was tried. **Collective.**
void max(const Communicator& comm, std::string_view what, std::span<std::int64_t> values);

/// Whether all ranks give the same bytes, by their digest. **Collective.**
[[nodiscard]] bool is_same(const Communicator& comm, std::string_view phase, std::string_view bytes);

/// Throws Error{mismatch} on all ranks, with both values, unless all give the same text. **Collective.**
/// `phase` begins the message.
void require_same(const Communicator& comm, std::string_view phase, const std::string& mine);

// ---- templates ----

void all_gather_bytes(const Communicator& comm, std::span<const std::byte> mine, std::span<std::byte> all);

template <typename T>
T broadcast(const Communicator& comm, T value) {
  static_assert(!std::is_pointer_v<T>, "a place in memory means nothing to other ranks");
  if constexpr (std::is_trivially_copyable_v<T>) {
    broadcast_bytes(comm, std::as_writable_bytes(std::span(&value, 1)));
  } else {
    value.resize(broadcast(comm, value.size()));
    broadcast_bytes(comm, std::as_writable_bytes(std::span(value)));
  }
  return value;
}

template <typename Work>
auto on_first_rank(const Communicator& comm, std::string_view phase, Work&& work) {
  if constexpr (std::is_void_v<decltype(work())>) {
    comm.together(phase, [&] {
      if (comm.rank() == 0) work();
    });
  } else {
    decltype(work()) made{};
    comm.together(phase, [&] {
      if (comm.rank() == 0) made = work();
    });
    return broadcast(comm, std::move(made));
  }
}

template <typename T>
std::vector<T> all_gather(const Communicator& comm, std::span<const T> mine) {
  std::vector<T> all(mine.size() * static_cast<std::size_t>(comm.size()));
  all_gather_bytes(comm, std::as_bytes(mine), std::as_writable_bytes(std::span(all)));
  return all;
}

}  // namespace rota::ranks
