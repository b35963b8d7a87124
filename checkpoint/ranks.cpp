#include "ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <condition_variable>
#include <mutex>
#include <new>
#include <thread>
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
    : comm_(duplicate(comm)), exchange_(comm_, deadline) {
  if (size() > 1) find_nodes();
}

void Ranks::allow_blocking() {
  if (comm_.get() == MPI_COMM_NULL) return;
  MPI_Comm plain = MPI_COMM_NULL;
  mpi::check(MPI_Comm_split(comm_.get(), 0, rank(), &plain), "MPI_Comm_split");
  io_ = mpi::Communicator(plain);
  MPI_Comm_free(&plain);
}

Ranks::~Ranks() {
  if (!exchange_.is_broken()) return;
  comm_.abandon();
  io_.abandon();
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

void Ranks::run(std::string_view what, std::shared_ptr<void> memory, mpi::Operation::Start start) {
  mpi::Operation operation(what, std::move(memory), std::move(start));
  run(operation);
}

void Ranks::run(mpi::Operation& operation) {
  if (relay_ != nullptr) {
    relay_->run(operation);
  } else {
    exchange_.finish(operation);
  }
}

namespace {

// What is left behind where a deadline is missed.
struct Blocking {
  std::function<void(MPI_Comm)> work;
  std::mutex mutex;
  std::condition_variable ended;
  bool has_ended = false;
  std::exception_ptr error;

  void run(MPI_Comm comm) {
    try {
      work(comm);
    } catch (...) {
      error = std::current_exception();
    }
    const std::scoped_lock lock(mutex);
    has_ended = true;
    ended.notify_all();
  }
};

}  // namespace

void Ranks::block(std::string_view phase, std::function<void(MPI_Comm)> work) {
  const auto blocking = std::make_shared<Blocking>();
  blocking->work = std::move(work);
  std::jthread thread([blocking, comm = io_.get()] { blocking->run(comm); });
  const auto until = exchange_.latest();
  std::unique_lock lock(blocking->mutex);
  const auto has_ended = [&] { return blocking->has_ended; };
  if (until == mpi::Clock::time_point::max()) {
    blocking->ended.wait(lock, has_ended);
  } else if (!blocking->ended.wait_until(lock, until, has_ended)) {
    lock.unlock();
    thread.detach();
    run(phase, blocking, nullptr);
  }
  if (blocking->error) std::rethrow_exception(blocking->error);
}

void Ranks::agree(std::string_view phase, std::exception_ptr error) {
  mpi::agree(
      comm_.world(), [&](mpi::Operation& operation) { run(operation); }, phase, as_error(std::move(error)));
}

void Ranks::broadcast_bytes(std::span<std::byte> bytes) {
  if (size() == 1) return;
  const auto copy = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  run("broadcast what rank 0 says", copy, [copy](MPI_Comm comm, mpi::Requests& requests) {
    in_messages(*copy, [&](std::byte* part, int count) {
      mpi::check(MPI_Ibcast(part, count, MPI_BYTE, 0, comm, &requests.emplace_back()), "MPI_Ibcast");
    });
  });
  std::ranges::copy(*copy, bytes.begin());
}

std::string Ranks::broadcast(std::string bytes) {
  std::size_t length = bytes.size();
  broadcast(length);
  bytes.resize(length);
  broadcast_bytes(std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

void Ranks::gather_bytes(std::span<const std::byte> own, std::span<std::byte> all) {
  if (size() == 1) {
    std::ranges::copy(own, all.begin());
    return;
  }
  struct Memory {
    std::vector<std::byte> own;
    std::vector<std::byte> all;
  };
  const auto memory =
      std::make_shared<Memory>(Memory{{own.begin(), own.end()}, std::vector<std::byte>(all.size())});
  run("gather what all ranks say", memory, [memory](MPI_Comm comm, mpi::Requests& requests) {
    const int count = to_count(memory->own.size());
    mpi::check(MPI_Iallgather(memory->own.data(), count, MPI_BYTE, memory->all.data(), count, MPI_BYTE, comm,
                              &requests.emplace_back()),
               "MPI_Iallgather");
  });
  std::ranges::copy(memory->all, all.begin());
}

std::vector<std::byte> Ranks::gather_at_root(std::span<const std::byte> bytes) {
  std::vector<std::vector<std::byte>> messages(static_cast<std::size_t>(size()));
  together("gather at rank 0", [&] { messages.front().assign(bytes.begin(), bytes.end()); });
  const std::vector<std::vector<std::byte>> received = exchange(std::move(messages));
  std::vector<std::byte> all;
  at_root("gather at rank 0", [&] {
    for (const auto& message : received) all.insert(all.end(), message.begin(), message.end());
  });
  return all;
}

void Ranks::sum(std::span<std::uint64_t> values) {
  if (size() == 1 || values.empty()) return;
  const auto copy = std::make_shared<std::vector<std::uint64_t>>(values.begin(), values.end());
  run("add up what all ranks say", copy, [copy](MPI_Comm comm, mpi::Requests& requests) {
    mpi::check(MPI_Iallreduce(MPI_IN_PLACE, copy->data(), to_count(copy->size()), MPI_UINT64_T, MPI_SUM, comm,
                              &requests.emplace_back()),
               "MPI_Iallreduce");
  });
  std::ranges::copy(*copy, values.begin());
}

namespace {

// What goes to each rank and comes from it, and the sizes of it.
struct Exchanged {
  std::vector<std::int64_t> sent;
  std::vector<std::int64_t> received;
  std::vector<std::vector<std::byte>> outgoing;
  std::vector<std::vector<std::byte>> incoming;
};

void transfer(Exchanged& exchanged, int self, MPI_Comm comm, mpi::Requests& requests) {
  for (int r = 0; r < static_cast<int>(exchanged.outgoing.size()); ++r) {
    if (r == self) continue;
    in_messages(exchanged.incoming[static_cast<std::size_t>(r)], [&](std::byte* bytes, int count) {
      mpi::check(MPI_Irecv(bytes, count, MPI_BYTE, r, kTag, comm, &requests.emplace_back()), "MPI_Irecv");
    });
    in_messages(exchanged.outgoing[static_cast<std::size_t>(r)], [&](const std::byte* bytes, int count) {
      mpi::check(MPI_Isend(bytes, count, MPI_BYTE, r, kTag, comm, &requests.emplace_back()), "MPI_Isend");
    });
  }
}

}  // namespace

std::vector<std::vector<std::byte>> Ranks::exchange(std::vector<std::vector<std::byte>> outgoing) {
  if (size() == 1) return outgoing;
  const auto self = static_cast<std::size_t>(rank());
  const auto memory = std::make_shared<Exchanged>();
  memory->outgoing = std::move(outgoing);
  together("make room for what other ranks send", [&] {
    for (const auto& bytes : memory->outgoing) memory->sent.push_back(std::ssize(bytes));
    memory->received.resize(memory->sent.size());
    memory->incoming.resize(memory->sent.size());
  });
  run("tell other ranks how much they get", memory, [memory](MPI_Comm comm, mpi::Requests& requests) {
    mpi::check(MPI_Ialltoall(memory->sent.data(), 1, MPI_INT64_T, memory->received.data(), 1, MPI_INT64_T,
                             comm, &requests.emplace_back()),
               "MPI_Ialltoall");
  });
  together("make room for what other ranks send", [&] {
    for (std::size_t r = 0; r < memory->incoming.size(); ++r) {
      if (r != self) memory->incoming[r].resize(static_cast<std::size_t>(memory->received[r]));
    }
  });
  std::swap(memory->incoming[self], memory->outgoing[self]);
  run("exchange rows and blobs", memory, [memory, self](MPI_Comm comm, mpi::Requests& requests) {
    transfer(*memory, static_cast<int>(self), comm, requests);
  });
  return std::move(memory->incoming);
}

}  // namespace rota::checkpoint
