#include "mpi/exchange.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <climits>
#include <mutex>
#include <numeric>
#include <set>
#include <utility>

#include "core/caught.hpp"
#include "core/interrupt.hpp"
#include "mpi/backoff.hpp"
#include "mpi/collectives.hpp"
#include "mpi/tags.hpp"
#include "rota/error.hpp"

namespace rota::mpi {
namespace {

// Messages beside the operations: who is there, and that ranks have given up. The first character says which.
constexpr std::string_view kMissing = "?";  // to rank 0: somebody is missing
constexpr std::string_view kAreYouThere = "r";
constexpr std::string_view kHere = "h";
constexpr char kVerdict = 'v';

// How long rank 0 listens to the roll, and how long others wait for what it says.
constexpr auto kRoll = std::chrono::milliseconds(500);
constexpr auto kForVerdict = std::chrono::milliseconds(1200);

// Of an error's message, in bytes.
constexpr std::size_t kMaxText = 1 << 16;

}  // namespace

int to_count(std::size_t n) {
  if (n > INT_MAX) throw Error(ErrorCode::out_of_range, fmt::format("pass {} elements in one MPI call", n));
  return static_cast<int>(n);
}

void keep_for_ever(std::shared_ptr<void> memory) {
  static std::mutex mutex;
  static std::vector<std::shared_ptr<void>> kept;
  const std::scoped_lock lock(mutex);
  kept.push_back(std::move(memory));
}

Operation::Operation(std::string_view phase, std::shared_ptr<void> memory, Start start)
    : phase_(phase), memory_(std::move(memory)), start_(std::move(start)) {}

Operation::~Operation() {
  if (is_started_ && !is_done_) keep_for_ever(std::move(memory_));
}

bool Operation::advance(MPI_Comm comm) {
  if (!is_started_) {
    is_started_ = true;
    start_(comm, requests_);
  }
  if (is_done_) return true;
  int done = 0;
  check(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE),
        phase_);
  return is_done_ = done != 0;
}

DeadlineClock::time_point Exchange::latest() const {
  const auto start = DeadlineClock::now();
  const auto longest =
      std::chrono::floor<std::chrono::milliseconds>(DeadlineClock::time_point::max() - start);
  return deadline_.count() > 0 && deadline_ < longest ? start + deadline_ : DeadlineClock::time_point::max();
}

void Exchange::require_unbroken(std::string_view phase) const {
  if (!is_broken()) return;
  throw Error(ErrorCode::timeout,
              fmt::format("{}: ranks were given up before ({}); end the job", phase, verdict_));
}

bool Exchange::advance(Operation& operation) {
  attend(operation.phase());
  if (comm_->size() == 1) return true;
  return operation.advance(comm_->get());
}

void Exchange::finish(Operation& operation) {
  const auto until = latest();
  for (Backoff backoff; !advance(operation); backoff.wait()) {
    if (DeadlineClock::now() > until) give_up(operation.phase());
  }
}

void Exchange::attend(std::string_view phase) {
  require_unbroken(phase);
  if (comm_->size() == 1) return;
  if (internal::InterruptScope::is_due()) ask_interrupt(phase);
  if (deadline_.count() != 0 && answer()) give_up(phase);
}

// A rank that is interrupted leaves the others alone: they miss it at their deadline.
void Exchange::ask_interrupt(std::string_view phase) {
  try {
    internal::InterruptScope::ask();
  } catch (...) {
    break_off(fmt::format("{}: interrupted on this rank", phase));
    throw;
  }
}

// Whether somebody is missed. Looks at all that has come: it may have been decided since.
bool Exchange::answer() {
  bool is_missed = false;
  int from = 0;
  while (const auto message = receive(from)) {
    if (message->front() == kVerdict) pass_on(message->substr(1));
    if (*message == kAreYouThere) send(from, std::string(kHere));
    is_missed |= *message == kMissing;
  }
  return is_missed;
}

void Exchange::give_up(std::string_view phase) {
  if (comm_->rank() == 0) call_the_roll(phase);
  send(0, std::string(kMissing));
  Backoff backoff;
  for (const auto until = DeadlineClock::now() + kForVerdict; DeadlineClock::now() < until; backoff.wait())
    answer();
  std::string verdict =
      fmt::format("{}: rank 0 did not arrive before the deadline; all ranks must come here", phase);
  send(0, kVerdict + verdict);
  fail(std::move(verdict));
}

// Rank 0 only.
void Exchange::call_the_roll(std::string_view phase) {
  std::vector<int> ranks(static_cast<std::size_t>(comm_->size()) - 1);
  std::iota(ranks.begin(), ranks.end(), 1);
  std::set<int> missing(ranks.begin(), ranks.end());
  for (const int rank : ranks) send(rank, std::string(kAreYouThere));
  int from = 0;
  Backoff backoff;
  for (const auto until = DeadlineClock::now() + kRoll; DeadlineClock::now() < until && !missing.empty();
       backoff.wait()) {
    while (receive(from)) missing.erase(from);
  }
  std::string verdict =
      missing.empty()
          ? fmt::format("{}: all ranks are there by now, but not all were before the deadline", phase)
          : fmt::format("{}: rank{} {} did not arrive before the deadline; all ranks must come here", phase,
                        missing.size() > 1 ? "s" : "", fmt::join(missing, ", "));
  for (const int rank : ranks) send(rank, kVerdict + verdict);
  fail(std::move(verdict));
}

// Rank 0 comes late: only those who missed it know so far.
void Exchange::pass_on(std::string verdict) {
  for (int rank = 1; comm_->rank() == 0 && rank < comm_->size(); ++rank) send(rank, kVerdict + verdict);
  fail(std::move(verdict));
}

void Exchange::fail(std::string verdict) {
  verdict_ = std::move(verdict);
  throw Error(ErrorCode::timeout, fmt::format("{}; end the job", verdict_));
}

void Exchange::send(int rank, std::string message) {
  const auto bytes = std::make_shared<std::string>(std::move(message));
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Isend(bytes->data(), static_cast<int>(bytes->size()), MPI_CHAR, rank, kControlTag, comm_->get(),
                  &request),
        "MPI_Isend");
  keep_for_ever(bytes);  // nobody waits for it: the other may never come
  MPI_Request_free(&request);
}

// The next message beside the operations, if any has come.
std::optional<std::string> Exchange::receive(int& from) {
  int has_come = 0;
  MPI_Status status{};
  check(MPI_Iprobe(MPI_ANY_SOURCE, kControlTag, comm_->get(), &has_come, &status), "MPI_Iprobe");
  if (has_come == 0) return std::nullopt;
  int bytes = 0;
  MPI_Get_count(&status, MPI_CHAR, &bytes);
  std::string message(static_cast<std::size_t>(bytes), '\0');
  from = status.MPI_SOURCE;
  check(MPI_Recv(message.data(), bytes, MPI_CHAR, from, kControlTag, comm_->get(), MPI_STATUS_IGNORE),
        "MPI_Recv");
  return message;
}

void agree(const Communicator& comm, const Run& run, std::string_view phase,
           const std::exception_ptr& error) {
  if (is_alone(comm)) {
    if (error) std::rethrow_exception(error);
    return;
  }
  const auto lowest = std::make_shared<int>(error ? comm.rank() : INT_MAX);
  Operation find(phase, lowest, [lowest](MPI_Comm among, Requests& requests) {
    check(MPI_Iallreduce(MPI_IN_PLACE, lowest.get(), 1, MPI_INT, MPI_MIN, among, &requests.emplace_back()),
          "MPI_Iallreduce");
  });
  run(find);
  const int failed = *lowest;
  if (failed == INT_MAX) return;

  struct Failure {
    std::int64_t code = 0;
    std::size_t length = 0;
    std::array<char, kMaxText> message{};
  };
  const auto told = std::make_shared<Failure>();
  if (failed == comm.rank()) {
    const internal::Caught failure = internal::caught(error);
    told->code = static_cast<std::int64_t>(failure.code);
    told->length = failure.message.copy(told->message.data(), kMaxText);
  }
  Operation tell(phase, told, [told, failed](MPI_Comm among, Requests& requests) {
    check(MPI_Ibcast(told.get(), sizeof(Failure), MPI_BYTE, failed, among, &requests.emplace_back()),
          "MPI_Ibcast");
  });
  run(tell);
  throw Error(static_cast<ErrorCode>(told->code),
              fmt::format("rank {}: {}", failed, std::string_view(told->message.data(), told->length)));
}

namespace {

// What an all-gather reads and writes.
struct Gathered {
  std::string mine;
  std::vector<std::int64_t> sizes;
  std::vector<int> counts;
  std::vector<int> offsets;
  std::string all;

  void lay_out(std::string_view phase) {
    std::int64_t bytes = 0;
    for (const std::int64_t size : sizes) {
      offsets.push_back(static_cast<int>(bytes));
      counts.push_back(static_cast<int>(size));
      if ((bytes += size) <= INT_MAX) continue;
      throw Error(ErrorCode::out_of_range, fmt::format("{}: {} bytes or more are too many", phase, bytes));
    }
    all.resize(static_cast<std::size_t>(bytes));
  }
  [[nodiscard]] std::vector<std::string> parts() const {
    std::vector<std::string> parts;
    for (std::size_t r = 0; r < counts.size(); ++r) {
      parts.push_back(all.substr(static_cast<std::size_t>(offsets[r]), static_cast<std::size_t>(counts[r])));
    }
    return parts;
  }
};

}  // namespace

std::vector<std::string> all_gather(const Communicator& comm, const Run& run, std::string_view phase,
                                    std::string mine) {
  if (is_alone(comm)) return {std::move(mine)};
  const auto memory = std::make_shared<Gathered>();
  memory->mine = std::move(mine);
  memory->sizes.resize(static_cast<std::size_t>(comm.size()));
  memory->sizes[static_cast<std::size_t>(comm.rank())] = std::ssize(memory->mine);
  Operation tell(phase, memory, [memory](MPI_Comm among, Requests& requests) {
    check(MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, memory->sizes.data(), 1, MPI_INT64_T, among,
                         &requests.emplace_back()),
          "MPI_Iallgather");
  });
  run(tell);
  memory->lay_out(phase);
  Operation gather(phase, memory, [memory](MPI_Comm among, Requests& requests) {
    check(MPI_Iallgatherv(memory->mine.data(), static_cast<int>(memory->mine.size()), MPI_BYTE,
                          memory->all.data(), memory->counts.data(), memory->offsets.data(), MPI_BYTE, among,
                          &requests.emplace_back()),
          "MPI_Iallgatherv");
  });
  run(gather);
  return memory->parts();
}

}  // namespace rota::mpi
