#include "ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <new>
#include <numeric>
#include <utility>

#include "rota/error.hpp"

namespace rota::checkpoint {
namespace {

constexpr int kTag = 1;
constexpr std::size_t kMessageBytes = std::size_t{1} << 30;

mpi::Communicator duplicate(const mpi::Communicator& comm) {
  if (comm.get() == MPI_COMM_NULL) return {};
  return mpi::Communicator(comm.get());
}

int to_count(std::size_t n) {
  if (n > INT_MAX) throw Error(ErrorCode::out_of_range, fmt::format("pass {} elements in one MPI call", n));
  return static_cast<int>(n);
}

std::exception_ptr as_error(std::exception_ptr error) {
  try {
    if (error) std::rethrow_exception(error);
    return nullptr;
  } catch (const Error&) {
    return error;
  } catch (const std::bad_alloc&) {
    return std::make_exception_ptr(Error(ErrorCode::io, "save or restore: there is not enough memory"));
  } catch (const std::exception& other) {
    return std::make_exception_ptr(Error(ErrorCode::callback, other.what()));
  } catch (...) {
    return std::make_exception_ptr(Error(ErrorCode::callback, "an exception of unknown type"));
  }
}

// Calls `post` for each piece of `bytes` that one message can hold.
template <typename Bytes, typename Post>
void in_messages(Bytes& bytes, Post&& post) {
  for (std::size_t at = 0; at < bytes.size(); at += kMessageBytes) {
    post(bytes.data() + at, static_cast<int>(std::min(kMessageBytes, bytes.size() - at)));
  }
}

}  // namespace

Ranks::Ranks(const mpi::Communicator& comm, std::chrono::milliseconds deadline)
    : comm_(duplicate(comm)), deadline_(deadline) {
  if (size() > 1) find_nodes();
}

void Ranks::find_nodes() {
  MPI_Comm node = MPI_COMM_NULL;
  mpi::check(MPI_Comm_split_type(comm_.get(), MPI_COMM_TYPE_SHARED, rank(), MPI_INFO_NULL, &node),
             "MPI_Comm_split_type");
  const World place = mpi::world(node);
  MPI_Comm_free(&node);
  syncs_node_ = place.rank == 0 && !is_root();
  std::int64_t any = syncs_node_ ? 1 : 0;
  mpi::max(comm_, std::span(&any, 1));
  has_other_nodes_ = any != 0;
}

void Ranks::agree(std::string_view phase, std::exception_ptr error) {
  mpi::agree(comm_, phase, as_error(std::move(error)), deadline_);
}

std::string Ranks::broadcast(std::string bytes) { return mpi::broadcast(comm_, std::move(bytes)); }

void Ranks::broadcast(std::span<std::byte> bytes) { mpi::broadcast(comm_, bytes); }

void Ranks::gather_bytes(std::span<const std::byte> own, std::span<std::byte> all) {
  if (size() == 1) {
    std::ranges::copy(own, all.begin());
    return;
  }
  const int count = to_count(own.size());
  mpi::check(MPI_Allgather(own.data(), count, MPI_BYTE, all.data(), count, MPI_BYTE, comm_.get()),
             "MPI_Allgather");
}

std::vector<std::byte> Ranks::gather_at_root(std::span<const std::byte> bytes) {
  if (size() == 1) return {bytes.begin(), bytes.end()};
  const std::vector<std::int64_t> sizes = mpi::gather(comm_, static_cast<std::int64_t>(bytes.size()));
  const std::int64_t total = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  to_count(static_cast<std::size_t>(total));
  const std::vector<int> counts(sizes.begin(), sizes.end());
  std::vector<int> places(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), places.begin(), 0);
  std::vector<std::byte> all;
  at_root("make room for what other ranks send", [&] { all.resize(static_cast<std::size_t>(total)); });
  mpi::check(MPI_Gatherv(bytes.data(), counts[static_cast<std::size_t>(rank())], MPI_BYTE, all.data(),
                         counts.data(), places.data(), MPI_BYTE, 0, comm_.get()),
             "MPI_Gatherv");
  return all;
}

void Ranks::sum(std::span<std::uint64_t> values) {
  if (size() == 1 || values.empty()) return;
  mpi::check(
      MPI_Allreduce(MPI_IN_PLACE, values.data(), to_count(values.size()), MPI_UINT64_T, MPI_SUM, comm_.get()),
      "MPI_Allreduce");
}

std::vector<std::vector<std::byte>> Ranks::exchange(std::vector<std::vector<std::byte>> outgoing) {
  const auto self = static_cast<std::size_t>(rank());
  std::vector<std::vector<std::byte>> incoming(outgoing.size());
  std::swap(incoming[self], outgoing[self]);
  if (size() == 1) return incoming;
  std::vector<std::int64_t> sent(outgoing.size());
  std::ranges::transform(outgoing, sent.begin(), [](const auto& bytes) { return std::ssize(bytes); });
  std::vector<std::int64_t> received(outgoing.size());
  mpi::check(MPI_Alltoall(sent.data(), 1, MPI_INT64_T, received.data(), 1, MPI_INT64_T, comm_.get()),
             "MPI_Alltoall");
  together("make room for what other ranks send", [&] {
    for (std::size_t r = 0; r < incoming.size(); ++r) {
      if (r != self) incoming[r].resize(static_cast<std::size_t>(received[r]));
    }
  });
  transfer(outgoing, incoming);
  return incoming;
}

// Each rank's part of `incoming` but this one's has the size of what that rank sends.
void Ranks::transfer(std::span<const std::vector<std::byte>> outgoing,
                     std::span<std::vector<std::byte>> incoming) {
  std::vector<MPI_Request> requests;
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    in_messages(incoming[static_cast<std::size_t>(r)], [&](std::byte* bytes, int count) {
      mpi::check(MPI_Irecv(bytes, count, MPI_BYTE, r, kTag, comm_.get(), &requests.emplace_back()),
                 "MPI_Irecv");
    });
    in_messages(outgoing[static_cast<std::size_t>(r)], [&](const std::byte* bytes, int count) {
      mpi::check(MPI_Isend(bytes, count, MPI_BYTE, r, kTag, comm_.get(), &requests.emplace_back()),
                 "MPI_Isend");
    });
  }
  mpi::check(MPI_Waitall(to_count(requests.size()), requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
}

}  // namespace rota::checkpoint
