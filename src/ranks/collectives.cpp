#include "ranks/collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>

#include "core/bytes.hpp"
#include "core/caught.hpp"
#include "core/text.hpp"
#include "core/wait.hpp"
#include "ranks/exchange.hpp"
#include "rota/fingerprint.hpp"

namespace rota::ranks {
namespace {

constexpr std::size_t kMaxText = 1 << 16;  // of an error's message
constexpr std::int64_t kNobody = std::numeric_limits<std::int64_t>::max();
constexpr std::string_view kAddUp = "add up what all ranks have";

// Runs an operation on `memory`, which `start` takes.
template <typename Memory, typename Start>
void run(Exchange& exchange, std::string_view phase, const std::shared_ptr<Memory>& memory, Start start) {
  Operation operation(phase, memory,
                      [memory, start](Transport& transport) { return start(*memory, transport); });
  exchange.finish(operation);
}

template <typename Work>
void in_step(const Communicator& comm, std::string_view phase, Work&& work) {
  if (!is_alone(comm)) exchange_of(comm).in_step(phase, [&] { work(exchange_of(comm)); });
}

template <typename T, typename... How>
void reduce(const Communicator& comm, std::string_view what, std::span<T> values,
            Transport::Begun (Transport::*call)(std::span<T>, How...), How... how) {
  if (values.empty()) return require_ranks(comm);
  in_step(comm, what, [&](Exchange& exchange) {
    const auto copy = std::make_shared<std::vector<T>>(values.begin(), values.end());
    run(exchange, what, copy, [=](std::vector<T>& all, Transport& by) { return (by.*call)(all, how...); });
    std::ranges::copy(*copy, values.begin());
  });
}

void reduce(const Communicator& comm, std::string_view what, std::span<std::int64_t> values, Reduction how) {
  reduce(comm, what, values, &Transport::reduce, how);
}

// What ranks send to one another, and the room for what comes.
struct Exchanged {
  Messages outgoing = {};
  std::vector<std::byte> to_all = {};  // instead of what is outgoing
  Messages incoming = {};
};

// Brings each rank's part to the others, where all know the sizes.
Transport::Begun transfer(Exchanged& exchanged, Transport& by) {
  const std::size_t ranks = exchanged.incoming.size();
  Parts<const std::byte> outgoing(ranks, exchanged.to_all);
  Parts<std::byte> incoming(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    if (!exchanged.outgoing.empty()) outgoing[r] = exchanged.outgoing[r];
    incoming[r] = exchanged.incoming[r];
  }
  return by.exchange(std::move(outgoing), std::move(incoming));
}

// How much comes from each rank.
std::vector<std::int64_t> announce(Exchange& exchange, std::string_view phase, const Messages& outgoing) {
  const auto memory = std::make_shared<Exchanged>();
  for (const auto& bytes : outgoing) {
    auto& size = memory->outgoing.emplace_back(sizeof(std::int64_t));
    internal::store(size, 0, std::ssize(bytes));
  }
  memory->incoming = memory->outgoing;
  run(exchange, phase, memory, transfer);
  std::vector<std::int64_t> sizes;
  for (const auto& size : memory->incoming) sizes.push_back(internal::load<std::int64_t>(size));
  return sizes;
}

}  // namespace

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
  const auto lowest = std::make_shared<std::int64_t>(error ? exchange.rank() : kNobody);
  run(exchange, phase, lowest,
      [](std::int64_t& rank, Transport& by) { return by.reduce(std::span(&rank, 1), Reduction::minimum); });
  if (*lowest == kNobody) return;
  const int failed = static_cast<int>(*lowest);

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
  run(exchange, phase, told, [failed](Told& all, Transport& by) {
    return by.broadcast(std::as_writable_bytes(std::span(&all, 1)), failed);
  });
  if (internal::is_stopped(error)) std::rethrow_exception(error);
  throw Error(static_cast<ErrorCode>(told->code),
              fmt::format("rank {}: {}", failed, std::string_view(told->message.data(), told->length)),
              failed == exchange.rank() ? failure.cause : nullptr);
}

bool is_same(const Communicator& comm, std::string_view bytes) {
  if (is_alone(comm)) return true;
  const Fingerprint digest = FingerprintBuilder().add(bytes).finish();
  const auto high = static_cast<std::int64_t>(digest.high);
  const auto low = static_cast<std::int64_t>(digest.low);
  std::array lowest = {high, low, ~high, ~low};
  comm.min(lowest);
  return lowest[0] == ~lowest[2] && lowest[1] == ~lowest[3];
}

void require_same(const Communicator& comm, std::string_view phase, const std::string& mine) {
  if (is_same(comm, mine)) return;
  const std::string first = broadcast(comm, mine);
  comm.together(phase, [&] { internal::require_same_lines(phase, mine, first); });
}

// ---- bytes ----

// Piece by piece, so that the copies are small.
void broadcast_bytes(const Communicator& comm, std::span<std::byte> value) {
  constexpr std::size_t kPieceBytes = std::size_t{1} << 24;
  constexpr std::string_view kPhase = "take what rank 0 gives";
  in_step(comm, kPhase, [&](Exchange& exchange) {
    for (auto rest = value; !rest.empty(); rest = rest.subspan(std::min(kPieceBytes, rest.size()))) {
      const auto piece = rest.first(std::min(kPieceBytes, rest.size()));
      const auto copy = std::make_shared<std::vector<std::byte>>(piece.begin(), piece.end());
      run(exchange, kPhase, copy,
          [](std::vector<std::byte>& bytes, Transport& by) { return by.broadcast(bytes, 0); });
      std::ranges::copy(*copy, piece.begin());
    }
  });
}

void all_gather_bytes(const Communicator& comm, std::span<const std::byte> mine, std::span<std::byte> all) {
  require_ranks(comm);
  const auto of_rank = [&](std::size_t r) { return all.subspan(r * mine.size(), mine.size()); };
  std::ranges::copy(mine, of_rank(static_cast<std::size_t>(comm.rank())).begin());
  constexpr std::string_view kPhase = "gather what all ranks have";
  in_step(comm, kPhase, [&](Exchange& exchange) {
    const auto memory = std::make_shared<Exchanged>();
    memory->to_all.assign(mine.begin(), mine.end());
    memory->incoming.assign(static_cast<std::size_t>(comm.size()), std::vector<std::byte>(mine.size()));
    run(exchange, kPhase, memory, transfer);
    for (std::size_t r = 0; r < memory->incoming.size(); ++r) {
      if (std::cmp_not_equal(r, comm.rank())) std::ranges::copy(memory->incoming[r], of_rank(r).begin());
    }
  });
}

std::vector<std::int64_t> all_gather(const Communicator& comm, std::int64_t mine) {
  return all_gather<std::int64_t>(comm, std::span(&mine, 1));
}

std::vector<std::string> all_gather(const Communicator& comm, std::string_view phase, std::string mine) {
  if (is_alone(comm)) return {std::move(mine)};
  const Messages all = exchange(comm, phase, [&](Messages& messages) {
    const auto bytes = std::as_bytes(std::span(mine));
    for (auto& message : messages) message.assign(bytes.begin(), bytes.end());
  });
  std::vector<std::string> texts;
  for (const auto& bytes : all) {
    texts.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return texts;
}

Messages exchange(const Communicator& comm, std::string_view phase,
                  const std::function<void(Messages&)>& fill) {
  const auto self = static_cast<std::size_t>(comm.rank());
  const auto memory = std::make_shared<Exchanged>();
  comm.together(phase, [&] {
    memory->outgoing.resize(static_cast<std::size_t>(comm.size()));
    memory->incoming.resize(static_cast<std::size_t>(comm.size()));
    fill(memory->outgoing);
  });
  std::vector<std::int64_t> sizes;
  in_step(comm, phase, [&](Exchange& exchange) { sizes = announce(exchange, phase, memory->outgoing); });
  comm.together(phase, [&] {  // make room
    for (std::size_t r = 0; r < sizes.size(); ++r) {
      if (r != self) memory->incoming[r].resize(static_cast<std::size_t>(sizes[r]));
    }
  });
  std::swap(memory->incoming[self], memory->outgoing[self]);
  in_step(comm, phase, [&](Exchange& exchange) { run(exchange, phase, memory, transfer); });
  return std::move(memory->incoming);
}

// ---- reductions ----

void max(const Communicator& comm, std::string_view what, std::span<std::int64_t> values) {
  reduce(comm, what, values, Reduction::maximum);
}

}  // namespace rota::ranks

namespace rota {

void Communicator::together(std::string_view phase, const std::function<void()>& work) const {
  if (ranks::is_alone(*this)) return work();
  ranks::agree(*this, phase, internal::thrown_by(work));
}

void Communicator::sum(std::span<double> values) const {
  ranks::reduce(*this, ranks::kAddUp, values, &ranks::Transport::sum);
}
void Communicator::sum(std::span<float> values) const {
  std::vector<double> wide(values.begin(), values.end());
  sum(std::span(wide));
  std::ranges::transform(wide, values.begin(), [](double value) { return static_cast<float>(value); });
}
void Communicator::sum(std::span<std::int64_t> values) const {
  ranks::reduce(*this, ranks::kAddUp, values, ranks::Reduction::sum);
}
// As those with a sign, which wrap around.
void Communicator::sum(std::span<std::uint64_t> values) const {
  sum(std::span(reinterpret_cast<std::int64_t*>(values.data()), values.size()));
}
void Communicator::min(std::span<std::int64_t> values) const {
  ranks::reduce(*this, "find the least of what all ranks have", values, ranks::Reduction::minimum);
}
void Communicator::max(std::span<std::int64_t> values) const {
  ranks::max(*this, "find the most of what all ranks have", values);
}

}  // namespace rota
