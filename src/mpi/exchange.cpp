#include "mpi/exchange.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/failure.hpp"
#include "mpi/background.hpp"
#include "mpi/collectives.hpp"

namespace rota::mpi {
namespace {

// Messages beside the operations. The first character says which.
constexpr std::string_view kMissing = "?";  // to rank 0: somebody is missing
constexpr std::string_view kAreYouThere = "r";
constexpr std::string_view kHere = "h";
constexpr std::string_view kProgress = "p";
constexpr std::string_view kVerdict = "v";

// How long rank 0 listens to the roll, and how long others wait for what it says.
constexpr auto kRoll = std::chrono::milliseconds(500);
constexpr auto kForVerdict = std::chrono::milliseconds(1200);

using Clock = std::chrono::steady_clock;

std::string text_of_missing(std::string_view phase, const std::vector<int>& ranks) {
  return fmt::format("{}: rank{} {} did not arrive before the deadline; all ranks must come here", phase,
                     ranks.size() > 1 ? "s" : "", fmt::join(ranks, ", "));
}

}  // namespace

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

Exchange::Exchange(MPI_Comm comm, std::chrono::milliseconds deadline, Ownership ownership)
    : comm_(comm), deadline_(deadline), ownership_(ownership), sent_(comm, kControlTag) {
  check(MPI_Comm_rank(comm, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(comm, &size_), "MPI_Comm_size");
}

// Not where a message may be on its way, which a communicator made later could take for its own.
Exchange::~Exchange() {
  if (maker_ != internal::this_process()) return;
  received_.clear();
  if (ownership_ == Ownership::borrowed || is_abandoned_ || is_broken() || !is_running()) return;
  MPI_Comm_free(&comm_);
}

void Exchange::require_maker() const {
  if (maker_ == internal::this_process()) return;
  throw internal::failure(ErrorCode::unsupported,
                          "use a communicator in process {}, which was forked of process {} that made it: "
                          "only that one is a rank of MPI; pass a default-made one here",
                          internal::this_process(), maker_);
}

void Exchange::break_off(std::string why) noexcept {
  const internal::MutexLock lock(mutex_);
  if (verdict_.empty()) verdict_ = std::move(why);
}

bool Exchange::is_broken() const noexcept {
  const internal::MutexLock lock(mutex_);
  return !verdict_.empty();
}

void Exchange::require_unbroken(std::string_view phase) const {
  const internal::MutexLock lock(mutex_);
  if (verdict_.empty()) return;
  throw internal::failure(ErrorCode::timeout, "{}: ranks were given up before ({}); end the job", phase,
                          verdict_);
}

bool Exchange::is_late(DeadlineClock::time_point begun) const {
  const auto waited =
      std::chrono::floor<std::chrono::milliseconds>(DeadlineClock::now() - std::max(begun, heard_));
  return deadline_.count() > 0 && waited > deadline_;
}

void Exchange::finish(Operation& operation) {
  if (background_ != nullptr) return background_->hand_over(operation);
  complete(operation);
}

void Exchange::complete(Operation& operation) {
  wait(operation.phase(), [&] { return size_ == 1 || operation.advance(comm_); });
}

bool Exchange::advance(Operation& operation) {
  attend(operation.phase());
  return size_ == 1 || operation.advance(comm_);
}

void Exchange::attend(std::string_view phase) {
  require_unbroken(phase);
  try {
    internal::Wait::here().check();
  } catch (...) {  // leaves the others alone: they miss this rank at their deadline
    break_off(fmt::format("{}: interrupted on this rank", phase));
    throw;
  }
  if (size_ == 1 || deadline_.count() <= 0 || Clock::now() < next_look_) return;
  next_look_ = Clock::now() + kLook;
  if (answer()) give_up(phase);
}

// From now on messages from other ranks are received.
void Exchange::listen() {
  if (!received_.empty()) return;
  for (int from = rank_ == 0 ? 1 : 0; from < (rank_ == 0 ? size_ : 1); ++from) {
    received_.emplace_back(comm_, from, kControlTag);
  }
}

// Whether somebody is missed. Looks at all that has come: it may have been decided since.
bool Exchange::answer() {
  listen();
  sent_.progress();
  bool is_missed = false;
  bool is_progress = false;
  for (ReceiveQueue& from : received_) {
    while (const auto bytes = from.receive()) {
      const std::string_view message(reinterpret_cast<const char*>(bytes->data()), bytes->size());
      if (message.starts_with(kVerdict)) {
        const std::string verdict(message.substr(1));
        if (rank_ == 0) send_all(message);  // it comes late: only those who missed it know so far
        fail(verdict);
      }
      if (message == kAreYouThere) send(0, kHere);
      is_missed |= message == kMissing;
      is_progress |= message == kProgress;
    }
  }
  if (is_progress) {
    heard_ = DeadlineClock::now();
    if (rank_ == 0) show_progress();
  }
  return is_missed;
}

// Where the last sign is still on its way, the other rank does not wait.
void Exchange::show_progress() {
  if (size_ == 1 || deadline_.count() <= 0 || background_ != nullptr || is_broken()) return;
  if (Clock::now() < next_sign_) return;
  next_sign_ = Clock::now() + deadline_ / 4;
  sent_.progress();
  if (sent_.is_empty()) rank_ == 0 ? send_all(kProgress) : send(0, kProgress);
}

void Exchange::give_up(std::string_view phase) {
  if (rank_ == 0) call_the_roll(phase);
  send(0, kMissing);
  Backoff backoff;
  for (const auto until = Clock::now() + kForVerdict; Clock::now() < until; backoff.wait()) answer();
  std::string verdict = text_of_missing(phase, {names_.empty() ? 0 : names_.front()});
  send(0, std::string(kVerdict) + verdict);
  fail(std::move(verdict));
}

// Rank 0 only.
void Exchange::call_the_roll(std::string_view phase) {
  listen();
  std::set<int> missing;
  for (int rank = 1; rank < size_; ++rank) missing.insert(rank);
  send_all(kAreYouThere);
  Backoff backoff;
  for (const auto until = Clock::now() + kRoll; Clock::now() < until && !missing.empty(); backoff.wait()) {
    for (int rank = 1; rank < size_; ++rank) {
      while (received_[static_cast<std::size_t>(rank) - 1].receive()) missing.erase(rank);
    }
  }
  std::vector<int> named;
  named.reserve(missing.size());
  for (const int rank : missing)
    named.push_back(names_.empty() ? rank : names_[static_cast<std::size_t>(rank)]);
  std::string verdict =
      missing.empty()
          ? fmt::format("{}: all ranks are there by now, but not all were before the deadline", phase)
          : text_of_missing(phase, named);
  send_all(std::string(kVerdict) + verdict);
  fail(std::move(verdict));
}

void Exchange::fail(std::string verdict) {
  break_off(verdict);
  throw internal::failure(ErrorCode::timeout, "{}; end the job", verdict);
}

// Nobody knows whether the other rank takes it before this one frees the communicator.
void Exchange::send(int rank, std::string_view message) {
  is_abandoned_ = true;
  const auto bytes = std::as_bytes(std::span(message));
  sent_.send(rank, std::make_shared<const Bytes>(bytes.begin(), bytes.end()));
}

void Exchange::send_all(std::string_view message) {
  for (int rank = 1; rank < size_; ++rank) send(rank, message);
}

}  // namespace rota::mpi
