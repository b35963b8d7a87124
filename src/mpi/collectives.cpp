#include "mpi/collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "core/lines.hpp"
#include "mpi/exchange.hpp"
#include "rota/error.hpp"
#include "rota/fingerprint.hpp"

namespace rota::mpi {
namespace {

template <typename T>
void reduce(const Communicator& comm, std::span<T> values, MPI_Datatype type, MPI_Op op) {
  if (is_alone(comm)) return;
  check(MPI_Allreduce(MPI_IN_PLACE, values.data(), to_count(values.size()), type, op, comm.get()),
        "MPI_Allreduce");
}

}  // namespace

void agree(const Communicator& comm, std::string_view phase, const std::exception_ptr& error) {
  Exchange exchange(comm, std::chrono::milliseconds::zero());
  agree(
      comm, [&](Operation& operation) { exchange.finish(operation); }, phase, error);
}

void together(const Communicator& comm, std::string_view phase, const std::function<void()>& work) {
  if (is_alone(comm)) return work();
  std::exception_ptr error;
  try {
    work();
  } catch (...) {
    error = std::current_exception();
  }
  agree(comm, phase, error);
}

void broadcast(const Communicator& comm, std::span<std::byte> value) {
  if (is_alone(comm)) return;
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
  if (is_alone(comm)) return {value};
  std::vector<std::int64_t> all(static_cast<std::size_t>(comm.size()));
  check(MPI_Allgather(&value, 1, MPI_INT64_T, all.data(), 1, MPI_INT64_T, comm.get()), "MPI_Allgather");
  return all;
}

bool is_same(const Communicator& comm, std::string_view bytes) {
  if (is_alone(comm)) return true;
  const Fingerprint digest = FingerprintBuilder().add(bytes).finish();
  std::array least = {static_cast<std::int64_t>(digest.high), static_cast<std::int64_t>(digest.low)};
  std::array most = least;
  min(comm, least);
  max(comm, most);
  return least == most;
}

void require_same(const Communicator& comm, std::string_view phase, const std::string& mine) {
  if (is_same(comm, mine)) return;
  const std::string first = broadcast(comm, mine);
  together(comm, phase, [&] { internal::require_same_lines(phase, mine, first); });
}

Communicator data_parallel(const Communicator& comm, int rank) {
  const std::vector<std::int64_t> said = gather(comm, rank);
  const auto refuse = [&](const std::string& what) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("share data among {} processes: {}; all data-parallel ranks from 0 on need as many "
                    "processes",
                    comm.size(), what));
  };
  std::map<std::int64_t, std::int64_t> times;
  for (const std::int64_t r : said) ++times[r];
  std::int64_t next = 0;
  for (const auto& [r, count] : times) {
    if (r < 0) refuse(fmt::format("data-parallel rank {} is below 0", r));
    if (r != next)
      refuse(fmt::format("none of them has data-parallel rank {}, and {} have rank {}", next, count, r));
    if (count != times[0]) {
      refuse(fmt::format("{} of them have data-parallel rank 0, and {} have rank {}", times[0], count, r));
    }
    ++next;
  }
  const auto before = std::span(said).first(static_cast<std::size_t>(comm.rank()));
  Communicator made = comm.duplicate();
  made.world_ = {.rank = rank,
                 .size = static_cast<int>(times.size()),
                 .replica = static_cast<int>(std::ranges::count(before, std::int64_t{rank}))};
  return made;
}

}  // namespace rota::mpi
