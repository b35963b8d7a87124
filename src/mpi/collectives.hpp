#pragma once

// What rota's own code asks of all ranks, beyond what rota/mpi.hpp has for programs.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rota/mpi.hpp"

namespace rota::mpi {

/// Throws Error{io} naming `call` unless `code` is MPI_SUCCESS.
void check(int code, std::string_view call);

/// Throws Error{invalid_argument} where `comm` was moved from, Error{unsupported} in a forked child.
void require_ranks(const Communicator& comm);
/// Whether this is its only rank. Throws as `require_ranks`.
[[nodiscard]] bool is_alone(const Communicator& comm);

/// Ends a phase. **Collective.** Returns if no rank has an `error`. Otherwise every rank throws the error of
/// the lowest failing rank, with "rank r: " before its message.
void agree(const Communicator& comm, std::string_view phase, const std::exception_ptr& error);

/// Returns rank 0's `value` on every rank. **Collective.**
std::string broadcast(const Communicator& comm, std::string value);
void broadcast(const Communicator& comm, std::span<std::byte> value);

/// Returns every rank's `value`, in order of rank, on every rank. **Collective.**
std::vector<std::int64_t> gather(const Communicator& comm, std::int64_t value);

/// Whether all ranks give the same bytes, by their digest. **Collective.**
[[nodiscard]] bool is_same(const Communicator& comm, std::string_view bytes);

/// Throws Error{mismatch} on all ranks, with both values, unless all give the same text. **Collective.**
/// `phase` begins the message.
void require_same(const Communicator& comm, std::string_view phase, const std::string& mine);

/// Ranks of MPI_COMM_WORLD; 1 before MPI_Init and after MPI_Finalize. Not collective.
[[nodiscard]] int job_size();

}  // namespace rota::mpi
