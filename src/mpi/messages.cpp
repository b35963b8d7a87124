#include "mpi/messages.hpp"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <exception>

#include "mpi/exchange.hpp"
#include "mpi/tags.hpp"
#include "rota/error.hpp"

namespace rota::mpi {
namespace {

void send(const Communicator& comm, int rank, std::span<const std::byte> bytes) {
  check(MPI_Send(bytes.data(), to_count(bytes.size()), MPI_BYTE, rank, kMessageTag, comm.get()), "MPI_Send");
}

// Until a message is empty; takes them all, also where they cannot be kept.
void receive_all(const Communicator& comm, const std::function<void(std::span<const std::byte>)>& take) {
  std::exception_ptr error;
  std::vector<std::byte> message;
  do {
    MPI_Status status;
    int count = 0;
    check(MPI_Probe(0, kMessageTag, comm.get(), &status), "MPI_Probe");
    check(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count");
    message.resize(static_cast<std::size_t>(count));
    check(MPI_Recv(message.data(), count, MPI_BYTE, 0, kMessageTag, comm.get(), MPI_STATUS_IGNORE),
          "MPI_Recv");
    if (message.empty() || error) continue;
    try {
      take(message);
    } catch (...) {
      error = std::current_exception();
    }
  } while (!message.empty());
  if (error) std::rethrow_exception(error);
}

struct Layout {
  std::vector<int> counts;
  std::vector<int> starts;
  std::size_t bytes = 0;

  void add(std::int64_t count) {
    counts.push_back(to_count(static_cast<std::size_t>(count)));
    starts.push_back(to_count(bytes));
    bytes += static_cast<std::size_t>(count);
  }
};

}  // namespace

Messages exchange(const Communicator& comm, const Messages& outgoing) {
  assert(std::ssize(outgoing) == comm.size());
  if (comm.size() == 1) return outgoing;
  std::vector<std::int64_t> sizes;
  for (const auto& message : outgoing) sizes.push_back(std::ssize(message));
  std::vector<std::int64_t> coming(sizes.size());
  check(MPI_Alltoall(sizes.data(), 1, MPI_INT64_T, coming.data(), 1, MPI_INT64_T, comm.get()),
        "MPI_Alltoall");
  Layout out;
  Layout in;
  std::vector<std::byte> from;
  std::vector<std::byte> to;
  Messages messages(sizes.size());
  // All memory is taken here, so that no rank lacks it later, and alone.
  together(comm, "exchange messages", [&] {
    for (const std::int64_t size : sizes) out.add(size);
    for (const std::int64_t size : coming) in.add(size);
    from.reserve(out.bytes);
    to.resize(in.bytes);
    for (std::size_t r = 0; r < messages.size(); ++r) messages[r].resize(static_cast<std::size_t>(coming[r]));
  });
  for (const auto& message : outgoing) from.insert(from.end(), message.begin(), message.end());
  check(MPI_Alltoallv(from.data(), out.counts.data(), out.starts.data(), MPI_BYTE, to.data(),
                      in.counts.data(), in.starts.data(), MPI_BYTE, comm.get()),
        "MPI_Alltoallv");
  for (std::size_t r = 0; r < messages.size(); ++r) {
    std::copy_n(to.begin() + in.starts[r], in.counts[r], messages[r].begin());
  }
  return messages;
}

void deal_out(const Communicator& comm, std::string_view phase,
              const std::function<void(const Deal&)>& produce,
              const std::function<void(std::span<const std::byte>)>& take) {
  std::exception_ptr error;
  try {
    if (comm.rank() == 0) {
      produce([&](int rank, std::span<const std::byte> bytes) {
        assert(!bytes.empty());
        rank == 0 ? take(bytes) : send(comm, rank, bytes);
      });
    } else {
      receive_all(comm, take);
    }
  } catch (...) {
    error = std::current_exception();
  }
  for (int rank = 1; comm.rank() == 0 && rank < comm.size(); ++rank) send(comm, rank, {});
  agree(comm, phase, error);
}

}  // namespace rota::mpi
