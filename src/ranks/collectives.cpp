#include "ranks/collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>

#include "core/bytes.hpp"
#include "core/caught.hpp"
#include "core/failure.hpp"
#include "core/text.hpp"
#include "core/wait.hpp"
#include "ranks/exchange.hpp"
#include "rota/fingerprint.hpp"

namespace rota::ranks {
namespace {

constexpr std::size_t kMaxText = 1 << 16;  // of an error's message
constexpr std::int64_t kNobody = std::numeric_limits<std::int64_t>::max();

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

void gather(Exchange& exchange, std::string_view phase, std::span<const std::byte> mine,
            std::span<std::byte> all) {
  const auto memory = std::make_shared<Exchanged>();
  memory->to_all.assign(mine.begin(), mine.end());
  memory->incoming.assign(static_cast<std::size_t>(exchange.size()), std::vector<std::byte>(mine.size()));
  run(exchange, phase, memory, transfer);
  memory->incoming[static_cast<std::size_t>(exchange.rank())] = memory->to_all;
  for (std::size_t r = 0; r < memory->incoming.size(); ++r) {
    std::ranges::copy(memory->incoming[r], all.subspan(r * mine.size(), mine.size()).begin());
  }
}

// Throws on all ranks, which are in different calls.
[[noreturn]] void refuse_different(Exchange& exchange, std::string_view phase, std::size_t values) {
  struct Called {
    std::size_t values = 0;
    std::array<char, 248> phase{};
  };
  Called mine{.values = values};
  phase.copy(mine.phase.data(), mine.phase.size() - 1);
  std::vector<Called> all(static_cast<std::size_t>(exchange.size()));
  gather(exchange, phase, std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  const bool is_one = std::ranges::all_of(all, [&](const Called& call) { return call.phase == mine.phase; });
  std::map<std::string, std::vector<int>> callers;
  for (int rank = 0; rank < exchange.size(); ++rank) {
    const Called& call = all[static_cast<std::size_t>(rank)];
    callers[fmt::format("\"{}\"{}", call.phase.data(),
                        is_one ? fmt::format(" of {} values", call.values) : "")]
        .push_back(rank);
  }
  std::map<std::vector<int>, std::string> texts;  // in the order of their first ranks
  for (const auto& [call, ranks] : callers)
    texts[ranks] = fmt::format("{} in {}", exchange.shown(ranks), call);
  std::string all_texts;
  for (const auto& [ranks, text] : texts) all_texts += (all_texts.empty() ? "" : ", ") + text;
  throw internal::failure(ErrorCode::mismatch,
                          "ranks are in different calls: {}; all ranks make the same calls in the same order",
                          all_texts);
}

// **Collective.** Whether all ranks give the same. One number goes around them at once, where several go in
// pieces, one behind the other: over gloo in six times as long.
bool are_same(Exchange& exchange, std::string_view phase, const Fingerprint& mine) {
  constexpr int kBits = 47;  // the sum of those of 65,536 ranks has room
  const auto digest = static_cast<std::int64_t>(mine.low >> (64 - kBits));
  const auto sum = std::make_shared<std::int64_t>(digest);
  run(exchange, phase, sum,
      [](std::int64_t& value, Transport& by) { return by.reduce(std::span(&value, 1), Reduction::sum); });
  return *sum == digest * exchange.size();
}

// **Collective.** Element-wise, in place. What ranks do first is the same, whatever the call is: so those
// that are in different calls find out, where the transport would fail. `known` is what need not be reduced
// where all ranks give it, as they mostly do, to agree or to compare.
template <typename T, typename... How>
void reduce(Exchange& exchange, std::string_view phase, std::span<T> values,
            std::span<const std::int64_t> known, Transport::Begun (Transport::*start)(std::span<T>, How...),
            How... how) {
  const Fingerprint call = FingerprintBuilder().add(phase).add(std::ssize(values)).finish();
  const bool is_one_call = exchange.in_step(phase, [&] {
    const bool is_known = are_same(exchange, phase, FingerprintBuilder().add(call).add(known).finish());
    if (!is_known && !are_same(exchange, phase, call)) return false;
    if (values.empty() || (is_known && !known.empty())) return true;
    const auto memory = std::make_shared<std::vector<T>>(values.begin(), values.end());
    run(exchange, phase, memory,
        [=](std::vector<T>& all, Transport& by) { return (by.*start)(all, how...); });
    std::ranges::copy(*memory, values.begin());
    return true;
  });
  if (!is_one_call) refuse_different(exchange, phase, values.size());
}

void reduce(Exchange& exchange, std::string_view phase, std::span<std::int64_t> values, Reduction how) {
  const auto known = how == Reduction::sum ? std::span<std::int64_t>() : values;
  reduce<std::int64_t>(exchange, phase, values, known, &Transport::reduce, how);
}

void reduce(const Communicator& comm, std::string_view phase, std::span<std::int64_t> values, Reduction how) {
  if (!is_alone(comm)) reduce(exchange_of(comm), phase, values, how);
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
  std::int64_t lowest = error ? exchange.rank() : kNobody;
  reduce(exchange, phase, std::span(&lowest, 1), Reduction::minimum);
  if (lowest == kNobody) return;
  const int failed = static_cast<int>(lowest);

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

bool is_same(const Communicator& comm, std::string_view phase, std::string_view bytes) {
  if (is_alone(comm)) return true;
  const Fingerprint digest = FingerprintBuilder().add(bytes).finish();
  const auto high = static_cast<std::int64_t>(digest.high);
  const auto low = static_cast<std::int64_t>(digest.low);
  std::array lowest = {high, low, ~high, ~low};
  reduce(comm, phase, lowest, Reduction::minimum);
  return lowest[0] == ~lowest[2] && lowest[1] == ~lowest[3];
}

void require_same(const Communicator& comm, std::string_view phase, const std::string& mine) {
  if (is_same(comm, phase, mine)) return;
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
  if (is_alone(comm)) std::ranges::copy(mine, all.begin());
  constexpr std::string_view kPhase = "gather what all ranks have";
  in_step(comm, kPhase, [&](Exchange& exchange) { gather(exchange, kPhase, mine, all); });
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
  if (ranks::is_alone(*this)) return;
  ranks::reduce<double>(*exchange_, "add up fractions of all ranks", values, {}, &ranks::Transport::sum);
}
void Communicator::sum(std::span<float> values) const {
  std::vector<double> wide(values.begin(), values.end());
  sum(std::span(wide));
  std::ranges::transform(wide, values.begin(), [](double value) { return static_cast<float>(value); });
}
void Communicator::sum(std::span<std::int64_t> values) const {
  ranks::reduce(*this, "add up what all ranks have", values, ranks::Reduction::sum);
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
