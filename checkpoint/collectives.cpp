#include "collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/caught.hpp"
#include "mpi/collectives.hpp"
#include "mpi/tags.hpp"
#include "rota/error.hpp"

namespace rota::checkpoint {
namespace {

constexpr std::size_t kMessageBytes = std::size_t{1} << 30;

// Calls `post` for each piece of `bytes` that one message can hold.
template <typename Bytes, typename Post>
void in_messages(Bytes& bytes, Post&& post) {
  for (std::size_t at = 0; at < bytes.size(); at += kMessageBytes) {
    post(bytes.data() + at, static_cast<int>(std::min(kMessageBytes, bytes.size() - at)));
  }
}

}  // namespace

Collectives::Collectives(const mpi::Communicator& comm, std::chrono::milliseconds deadline)
    : comm_(comm.duplicate()), exchange_(comm_, deadline) {
  if (size() > 1) find_nodes();
}

Collectives::~Collectives() {
  if (exchange_.is_broken()) comm_.abandon();
}

void Collectives::find_nodes() {
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

void Collectives::run(std::string_view what, std::shared_ptr<void> memory, mpi::Operation::Start start) {
  mpi::Operation operation(what, std::move(memory), std::move(start));
  run(operation);
}

void Collectives::run(mpi::Operation& operation) {
  if (is_out_of_step_) {
    throw Error(
        ErrorCode::timeout,
        fmt::format("{}: an exchange failed on this rank alone before; end the job", operation.phase()));
  }
  try {
    if (caller_ != nullptr) {
      caller_->run(operation);
    } else {
      exchange_.finish(operation);
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::timeout) is_late_ = true;
    throw;
  }
}

void Collectives::agree(std::string_view phase, std::exception_ptr error) {
  if (error) {
    const internal::Caught what = internal::caught(error);
    // Nobody is left to agree with.
    if (is_late_ && what.code == ErrorCode::timeout) std::rethrow_exception(error);
    error = std::make_exception_ptr(what.is_out_of_memory
                                        ? Error(ErrorCode::io, "save or restore: " + what.message)
                                        : Error(what.code, what.message));
  }
  mpi::agree(
      comm_, [&](mpi::Operation& operation) { run(operation); }, phase, error);
}

template <typename Work>
void Collectives::in_step(Work&& work) {
  if (size() == 1) return;
  try {
    work();
  } catch (...) {
    is_out_of_step_ = !is_late_;
    throw;
  }
}

void Collectives::broadcast_bytes(std::span<std::byte> bytes) {
  in_step([&] {
    const auto copy = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
    run("broadcast what rank 0 says", copy, [copy](MPI_Comm comm, mpi::Requests& requests) {
      in_messages(*copy, [&](std::byte* part, int count) {
        mpi::check(MPI_Ibcast(part, count, MPI_BYTE, 0, comm, &requests.emplace_back()), "MPI_Ibcast");
      });
    });
    std::ranges::copy(*copy, bytes.begin());
  });
}

void Collectives::gather_bytes(std::span<const std::byte> own, std::span<std::byte> all) {
  struct Memory {
    std::vector<std::byte> own;
    std::vector<std::byte> all;
  };
  in_step([&] {
    const auto memory =
        std::make_shared<Memory>(Memory{{own.begin(), own.end()}, std::vector<std::byte>(all.size())});
    run("gather what all ranks say", memory, [memory](MPI_Comm comm, mpi::Requests& requests) {
      const int count = mpi::to_count(memory->own.size());
      mpi::check(MPI_Iallgather(memory->own.data(), count, MPI_BYTE, memory->all.data(), count, MPI_BYTE,
                                comm, &requests.emplace_back()),
                 "MPI_Iallgather");
    });
    std::ranges::copy(memory->all, all.begin());
  });
}

void Collectives::sum(std::span<std::uint64_t> values) {
  if (values.empty()) return;
  in_step([&] {
    const auto copy = std::make_shared<std::vector<std::uint64_t>>(values.begin(), values.end());
    run("add up what all ranks say", copy, [copy](MPI_Comm comm, mpi::Requests& requests) {
      mpi::check(MPI_Iallreduce(MPI_IN_PLACE, copy->data(), mpi::to_count(copy->size()), MPI_UINT64_T,
                                MPI_SUM, comm, &requests.emplace_back()),
                 "MPI_Iallreduce");
    });
    std::ranges::copy(*copy, values.begin());
  });
}

namespace {

// What goes to each rank and comes from it, and the sizes of it.
struct Exchanged {
  std::vector<std::int64_t> sent;
  std::vector<std::int64_t> received;
  Collectives::Messages outgoing;
  Collectives::Messages incoming;
};

void transfer(Exchanged& exchanged, int self, MPI_Comm comm, mpi::Requests& requests) {
  for (int r = 0; r < static_cast<int>(exchanged.outgoing.size()); ++r) {
    if (r == self) continue;
    in_messages(exchanged.incoming[static_cast<std::size_t>(r)], [&](std::byte* bytes, int count) {
      mpi::check(MPI_Irecv(bytes, count, MPI_BYTE, r, mpi::kCheckpointTag, comm, &requests.emplace_back()),
                 "MPI_Irecv");
    });
    in_messages(exchanged.outgoing[static_cast<std::size_t>(r)], [&](const std::byte* bytes, int count) {
      mpi::check(MPI_Isend(bytes, count, MPI_BYTE, r, mpi::kCheckpointTag, comm, &requests.emplace_back()),
                 "MPI_Isend");
    });
  }
}

}  // namespace

Collectives::Messages Collectives::exchange(std::string_view phase,
                                            const std::function<void(Messages&)>& fill) {
  const auto self = static_cast<std::size_t>(rank());
  const auto memory = std::make_shared<Exchanged>();
  together(phase, [&] {
    memory->outgoing.resize(static_cast<std::size_t>(size()));
    fill(memory->outgoing);
    for (const auto& bytes : memory->outgoing) memory->sent.push_back(std::ssize(bytes));
    memory->received.resize(memory->sent.size());
    memory->incoming.resize(memory->sent.size());
  });
  if (size() == 1) return std::move(memory->outgoing);
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
