#include "mpi/collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <climits>
#include <memory>

#include "core/caught.hpp"
#include "core/failure.hpp"
#include "core/text.hpp"
#include "core/wait.hpp"
#include "mpi/exchange.hpp"
#include "rota/fingerprint.hpp"

namespace rota::mpi {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 30;  // of one call of MPI
constexpr std::size_t kMaxText = 1 << 16;                 // of an error's message

// Runs an operation on `memory`, which `start` takes.
template <typename Memory, typename Start>
void run(Exchange& exchange, std::string_view phase, const std::shared_ptr<Memory>& memory, Start start) {
  Operation operation(phase, memory,
                      [memory, start](MPI_Comm comm, Requests& requests) { start(*memory, comm, requests); });
  exchange.finish(operation);
}

// Runs `work`, which exchanges something. Where it throws on this rank alone, the others are in other steps
// than this one from then on.
template <typename Work>
void in_step(const Communicator& comm, Work&& work) {
  if (is_alone(comm)) return;
  Exchange& exchange = exchange_of(comm);
  try {
    work(exchange);
  } catch (...) {
    exchange.break_off("an exchange failed on this rank alone");
    throw;
  }
}

// Calls `post` for each piece of `bytes` that one call can take.
template <typename Bytes, typename Post>
void in_pieces(Bytes& bytes, Post&& post) {
  for (std::size_t at = 0; at < bytes.size(); at += kMostBytes) {
    post(bytes.data() + at, static_cast<int>(std::min(kMostBytes, bytes.size() - at)));
  }
}

template <typename T>
void reduce(const Communicator& comm, std::string_view what, std::span<T> values, MPI_Datatype type,
            MPI_Op op) {
  if (values.empty()) return require_ranks(comm);
  in_step(comm, [&](Exchange& exchange) {
    const auto copy = std::make_shared<std::vector<T>>(values.begin(), values.end());
    run(exchange, what, copy, [type, op](std::vector<T>& all, MPI_Comm among, Requests& requests) {
      check(MPI_Iallreduce(MPI_IN_PLACE, all.data(), to_count(all.size()), type, op, among,
                           &requests.emplace_back()),
            "MPI_Iallreduce");
    });
    std::ranges::copy(*copy, values.begin());
  });
}

// What an all-gather reads and writes.
struct Gathered {
  std::string mine;
  std::vector<int> counts = {};
  std::vector<int> offsets = {};
  std::string all = {};
};

}  // namespace

int to_count(std::size_t n) {
  if (n > INT_MAX) throw internal::failure(ErrorCode::out_of_range, "pass {} elements in one MPI call", n);
  return static_cast<int>(n);
}

void show_progress(const Communicator& comm) {
  if (!is_alone(comm)) exchange_of(comm).show_progress();
}

// ---- agreement ----

void agree(const Communicator& comm, std::string_view phase, const std::exception_ptr& error) {
  if (!is_alone(comm)) return agree(exchange_of(comm), phase, error);
  if (error) std::rethrow_exception(error);
}

void agree(Exchange& exchange, std::string_view phase, const std::exception_ptr& error) {
  const internal::Caught failure = error ? internal::caught(error) : internal::Caught();
  // Nobody is left to agree with.
  if (error && failure.code == ErrorCode::timeout && exchange.is_broken()) std::rethrow_exception(error);
  const auto lowest = std::make_shared<int>(error ? exchange.rank() : INT_MAX);
  run(exchange, phase, lowest, [](int& rank, MPI_Comm among, Requests& requests) {
    check(MPI_Iallreduce(MPI_IN_PLACE, &rank, 1, MPI_INT, MPI_MIN, among, &requests.emplace_back()),
          "MPI_Iallreduce");
  });
  const int failed = *lowest;
  if (failed == INT_MAX) return;

  struct Told {
    std::int64_t code = 0;
    std::size_t length = 0;
    std::array<char, kMaxText> message{};
  };
  const auto told = std::make_shared<Told>();
  if (failed == exchange.rank()) {
    told->code = static_cast<std::int64_t>(failure.is_out_of_memory ? ErrorCode::io : failure.code);
    told->length = failure.message.copy(told->message.data(), kMaxText);
  }
  run(exchange, phase, told, [failed](Told& all, MPI_Comm among, Requests& requests) {
    check(MPI_Ibcast(&all, sizeof(Told), MPI_BYTE, failed, among, &requests.emplace_back()), "MPI_Ibcast");
  });
  if (internal::is_stopped(error)) std::rethrow_exception(error);
  throw Error(static_cast<ErrorCode>(told->code),
              fmt::format("rank {}: {}", failed, std::string_view(told->message.data(), told->length)),
              failed == exchange.rank() ? failure.cause : nullptr);
}

void together(const Communicator& comm, std::string_view phase, const std::function<void()>& work) {
  if (is_alone(comm)) return work();
  agree(comm, phase, internal::thrown_by(work));
}

bool is_same(const Communicator& comm, std::string_view bytes) {
  if (is_alone(comm)) return true;
  const Fingerprint digest = FingerprintBuilder().add(bytes).finish();
  const auto high = static_cast<std::int64_t>(digest.high);
  const auto low = static_cast<std::int64_t>(digest.low);
  std::array lowest = {high, low, ~high, ~low};
  min(comm, lowest);
  return lowest[0] == ~lowest[2] && lowest[1] == ~lowest[3];
}

void require_same(const Communicator& comm, std::string_view phase, const std::string& mine) {
  if (is_same(comm, mine)) return;
  const std::string first = broadcast(comm, mine);
  together(comm, phase, [&] { internal::require_same_lines(phase, mine, first); });
}

// ---- bytes ----

// Piece by piece, so that the copies are small.
void broadcast_bytes(const Communicator& comm, std::span<std::byte> value) {
  constexpr std::size_t kPieceBytes = std::size_t{1} << 24;
  in_step(comm, [&](Exchange& exchange) {
    for (auto rest = value; !rest.empty(); rest = rest.subspan(std::min(kPieceBytes, rest.size()))) {
      const auto piece = rest.first(std::min(kPieceBytes, rest.size()));
      const auto copy = std::make_shared<std::vector<std::byte>>(piece.begin(), piece.end());
      run(exchange, "take what rank 0 gives", copy,
          [](std::vector<std::byte>& bytes, MPI_Comm among, Requests& requests) {
            check(MPI_Ibcast(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, 0, among,
                             &requests.emplace_back()),
                  "MPI_Ibcast");
          });
      std::ranges::copy(*copy, piece.begin());
    }
  });
}

void all_gather_bytes(const Communicator& comm, std::span<const std::byte> mine, std::span<std::byte> all) {
  if (is_alone(comm)) std::ranges::copy(mine, all.begin());
  in_step(comm, [&](Exchange& exchange) {
    const auto copy = std::make_shared<std::vector<std::byte>>(all.size());
    const auto own = static_cast<std::ptrdiff_t>(mine.size()) * comm.rank();
    std::ranges::copy(mine, copy->begin() + own);
    run(exchange, "gather what all ranks have", copy,
        [count = mine.size()](std::vector<std::byte>& bytes, MPI_Comm among, Requests& requests) {
          check(MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, bytes.data(), to_count(count), MPI_BYTE,
                               among, &requests.emplace_back()),
                "MPI_Iallgather");
        });
    std::ranges::copy(*copy, all.begin());
  });
}

std::vector<std::int64_t> all_gather(const Communicator& comm, std::int64_t mine) {
  return all_gather<std::int64_t>(comm, std::span(&mine, 1));
}

std::vector<std::string> all_gather(const Communicator& comm, std::string_view phase, std::string mine) {
  if (is_alone(comm)) return {std::move(mine)};
  const std::vector<std::int64_t> sizes = all_gather(comm, std::ssize(mine));
  const auto memory = std::make_shared<Gathered>(Gathered{.mine = std::move(mine)});
  std::int64_t bytes = 0;
  for (const std::int64_t size : sizes) {
    memory->offsets.push_back(static_cast<int>(bytes));
    memory->counts.push_back(static_cast<int>(size));
    if ((bytes += size) <= INT_MAX) continue;
    throw internal::failure(ErrorCode::out_of_range, "{}: {} bytes or more are too many", phase, bytes);
  }
  in_step(comm, [&](Exchange& exchange) {
    memory->all.resize(static_cast<std::size_t>(bytes));
    run(exchange, phase, memory, [](Gathered& of, MPI_Comm among, Requests& requests) {
      check(MPI_Iallgatherv(of.mine.data(), static_cast<int>(of.mine.size()), MPI_BYTE, of.all.data(),
                            of.counts.data(), of.offsets.data(), MPI_BYTE, among, &requests.emplace_back()),
            "MPI_Iallgatherv");
    });
  });
  std::vector<std::string> parts;
  for (std::size_t r = 0; r < sizes.size(); ++r) {
    parts.push_back(memory->all.substr(static_cast<std::size_t>(memory->offsets[r]),
                                       static_cast<std::size_t>(memory->counts[r])));
  }
  return parts;
}

namespace {

struct Exchanged {
  Messages outgoing;
  Messages incoming;
};

void transfer(Exchanged& exchanged, int self, MPI_Comm comm, Requests& requests) {
  for (int r = 0; r < static_cast<int>(exchanged.outgoing.size()); ++r) {
    if (r == self) continue;
    in_pieces(exchanged.incoming[static_cast<std::size_t>(r)], [&](std::byte* bytes, int count) {
      check(MPI_Irecv(bytes, count, MPI_BYTE, r, kExchangeTag, comm, &requests.emplace_back()), "MPI_Irecv");
    });
    in_pieces(exchanged.outgoing[static_cast<std::size_t>(r)], [&](const std::byte* bytes, int count) {
      check(MPI_Isend(bytes, count, MPI_BYTE, r, kExchangeTag, comm, &requests.emplace_back()), "MPI_Isend");
    });
  }
}

// How much comes from each rank.
std::vector<std::int64_t> announce(Exchange& exchange, std::string_view phase, const Messages& outgoing) {
  const auto sizes = std::make_shared<std::array<std::vector<std::int64_t>, 2>>();
  for (const auto& bytes : outgoing) sizes->front().push_back(std::ssize(bytes));
  sizes->back().resize(outgoing.size());
  run(exchange, phase, sizes, [](auto& both, MPI_Comm among, Requests& requests) {
    check(MPI_Ialltoall(both.front().data(), 1, MPI_INT64_T, both.back().data(), 1, MPI_INT64_T, among,
                        &requests.emplace_back()),
          "MPI_Ialltoall");
  });
  return std::move(sizes->back());
}

}  // namespace

Messages exchange(const Communicator& comm, std::string_view phase,
                  const std::function<void(Messages&)>& fill) {
  const auto self = static_cast<std::size_t>(comm.rank());
  const auto memory = std::make_shared<Exchanged>();
  together(comm, phase, [&] {
    memory->outgoing.resize(static_cast<std::size_t>(comm.size()));
    memory->incoming.resize(static_cast<std::size_t>(comm.size()));
    fill(memory->outgoing);
  });
  std::vector<std::int64_t> sizes;
  in_step(comm, [&](Exchange& exchange) { sizes = announce(exchange, phase, memory->outgoing); });
  together(comm, phase, [&] {  // make room
    for (std::size_t r = 0; r < sizes.size(); ++r) {
      if (r != self) memory->incoming[r].resize(static_cast<std::size_t>(sizes[r]));
    }
  });
  std::swap(memory->incoming[self], memory->outgoing[self]);
  in_step(comm, [&](Exchange& exchange) {
    run(exchange, phase, memory, [self](Exchanged& all, MPI_Comm among, Requests& requests) {
      transfer(all, static_cast<int>(self), among, requests);
    });
  });
  return std::move(memory->incoming);
}

// ---- reductions ----

void sum(const Communicator& comm, std::span<double> values) {
  reduce(comm, "add up what all ranks have", values, MPI_DOUBLE, MPI_SUM);
}
void sum(const Communicator& comm, std::span<std::int64_t> values) {
  reduce(comm, "add up what all ranks have", values, MPI_INT64_T, MPI_SUM);
}
void sum(const Communicator& comm, std::span<std::uint64_t> values) {
  reduce(comm, "add up what all ranks have", values, MPI_UINT64_T, MPI_SUM);
}
void min(const Communicator& comm, std::span<std::int64_t> values) {
  reduce(comm, "find the least of what all ranks have", values, MPI_INT64_T, MPI_MIN);
}
void max(const Communicator& comm, std::span<std::int64_t> values) {
  max(comm, "find the most of what all ranks have", values);
}
void max(const Communicator& comm, std::string_view what, std::span<std::int64_t> values) {
  reduce(comm, what, values, MPI_INT64_T, MPI_MAX);
}

}  // namespace rota::mpi
