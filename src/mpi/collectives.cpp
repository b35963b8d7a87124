#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <climits>
#include <memory>
#include <vector>

#include "rota/error.hpp"
#include "rota/mpi.hpp"

namespace rota::mpi {
namespace {

using Clock = std::chrono::steady_clock;

struct Failure {
  ErrorCode code = ErrorCode::io;
  std::string message;
};

Failure describe(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    return {e.code(), e.what()};
  } catch (const std::exception& e) {
    return {ErrorCode::callback, e.what()};
  } catch (...) {
    return {ErrorCode::callback, "an exception of unknown type"};
  }
}

// The time after `deadline`; the end of time for 0, and for what the clock cannot count up to.
Clock::time_point until(std::chrono::milliseconds deadline) {
  const auto now = Clock::now();
  const auto longest = std::chrono::floor<std::chrono::milliseconds>(Clock::time_point::max() - now);
  return deadline.count() > 0 && deadline < longest ? now + deadline : Clock::time_point::max();
}

// Completes `request`, yielding the core meanwhile: ranks may outnumber cores.
void wait(MPI_Request& request, Clock::time_point deadline, std::string_view phase) {
  for (int done = 0; done == 0;) {
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), phase);
    if (done != 0) return;
    if (Clock::now() > deadline) {
      throw Error(ErrorCode::timeout, fmt::format("{}: not all ranks arrived before the deadline", phase));
    }
    sched_yield();
  }
}

int to_count(std::size_t n) {
  if (n > INT_MAX) throw Error(ErrorCode::out_of_range, fmt::format("pass {} elements in one MPI call", n));
  return static_cast<int>(n);
}

template <typename T>
void reduce(const Communicator& comm, std::span<T> values, MPI_Datatype type, MPI_Op op) {
  if (comm.size() == 1) return;
  check(MPI_Allreduce(MPI_IN_PLACE, values.data(), to_count(values.size()), type, op, comm.get()),
        "MPI_Allreduce");
}

}  // namespace

void agree(const Communicator& comm, std::string_view phase, const std::exception_ptr& error,
           std::chrono::milliseconds deadline) {
  if (comm.size() == 1) {
    if (error) std::rethrow_exception(error);
    return;
  }
  if (comm.is_broken_) {
    throw Error(
        ErrorCode::timeout,
        fmt::format("{}: a rank missed a deadline before; end the job, or use another communicator", phase));
  }
  const auto latest = until(deadline);
  auto lowest = std::make_unique<int>(error ? comm.rank() : INT_MAX);
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Iallreduce(MPI_IN_PLACE, lowest.get(), 1, MPI_INT, MPI_MIN, comm.get(), &request),
        "MPI_Iallreduce");
  try {
    wait(request, latest, phase);
  } catch (...) {
    // The reduction is still under way and may write there for as long as the process lives.
    static std::vector<std::unique_ptr<int>> abandoned;
    abandoned.push_back(std::move(lowest));
    comm.is_broken_ = true;
    throw;
  }
  const int failed = *lowest;
  if (failed == INT_MAX) return;

  Failure failure = failed == comm.rank() ? describe(error) : Failure{};
  int code = static_cast<int>(failure.code);
  check(MPI_Bcast(&code, 1, MPI_INT, failed, comm.get()), "MPI_Bcast");
  auto length = static_cast<int>(std::min<std::size_t>(failure.message.size(), 1 << 16));
  check(MPI_Bcast(&length, 1, MPI_INT, failed, comm.get()), "MPI_Bcast");
  failure.message.resize(static_cast<std::size_t>(length));
  check(MPI_Bcast(failure.message.data(), length, MPI_CHAR, failed, comm.get()), "MPI_Bcast");
  throw Error(static_cast<ErrorCode>(code), fmt::format("rank {}: {}", failed, failure.message));
}

void together(const Communicator& comm, std::string_view phase, const std::function<void()>& work) {
  std::exception_ptr error;
  try {
    work();
  } catch (...) {
    error = std::current_exception();
  }
  agree(comm, phase, error);
}

void broadcast(const Communicator& comm, std::span<std::byte> value) {
  if (comm.size() == 1) return;
  for (std::size_t done = 0; done < value.size();) {
    const std::size_t count = std::min<std::size_t>(value.size() - done, std::size_t{1} << 30);
    check(MPI_Bcast(value.data() + done, static_cast<int>(count), MPI_BYTE, 0, comm.get()), "MPI_Bcast");
    done += count;
  }
}

std::string broadcast(const Communicator& comm, std::string value) {
  auto size = static_cast<std::int64_t>(value.size());
  broadcast(comm, std::as_writable_bytes(std::span(&size, 1)));
  value.resize(static_cast<std::size_t>(size));
  broadcast(comm, std::as_writable_bytes(std::span(value)));
  return value;
}

void sum(const Communicator& comm, std::span<double> values) { reduce(comm, values, MPI_DOUBLE, MPI_SUM); }
void sum(const Communicator& comm, std::span<std::int64_t> values) {
  reduce(comm, values, MPI_INT64_T, MPI_SUM);
}
void min(const Communicator& comm, std::span<std::int64_t> values) {
  reduce(comm, values, MPI_INT64_T, MPI_MIN);
}
void max(const Communicator& comm, std::span<std::int64_t> values) {
  reduce(comm, values, MPI_INT64_T, MPI_MAX);
}

std::vector<std::int64_t> gather(const Communicator& comm, std::int64_t value) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(comm.size()), value);
  if (comm.size() == 1) return all;
  check(MPI_Allgather(&value, 1, MPI_INT64_T, all.data(), 1, MPI_INT64_T, comm.get()), "MPI_Allgather");
  return all;
}

}  // namespace rota::mpi
