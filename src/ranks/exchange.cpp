#include "ranks/exchange.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/failure.hpp"
#include "ranks/background.hpp"
#include "ranks/messages.hpp"

namespace rota::ranks {
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

constexpr std::string_view kLate = "did not arrive before the deadline; all ranks must come here";
constexpr std::string_view kGone = "cannot be reached any more: a process has ended, or the network failed";

using Clock = std::chrono::steady_clock;

}  // namespace

Operation::Operation(std::string_view phase, std::shared_ptr<void> memory, Start start)
    : phase_(phase), memory_(std::move(memory)), start_(std::move(start)) {}

Operation::~Operation() {
  if (is_started_ && !is_done_) keep_for_ever(std::move(memory_));
}

void Operation::start(Transport& transport) {
  if (!std::exchange(is_started_, true)) call_ = start_(transport);
}

bool Operation::advance(Transport& transport, bool may_rest) {
  start(transport);
  return is_done_ = is_done_ || (call_ != nullptr && call_->advance(may_rest));
}

Exchange::Exchange(std::unique_ptr<Transport> transport, std::chrono::milliseconds deadline)
    : transport_(std::move(transport)), deadline_(deadline) {}

Exchange::~Exchange() {
  if (maker_ != internal::this_process() || is_broken()) transport_->leak();
}

void Exchange::require_maker() const {
  if (maker_ == internal::this_process()) return;
  throw internal::failure(ErrorCode::unsupported,
                          "use a communicator in process {}, which was forked of process {} that made it: "
                          "only that one is a rank; pass a default-made one here, comm=None in Python",
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
  wait(operation.phase(), [&] { return move(operation, true); });
}

bool Exchange::advance(Operation& operation) {
  attend(operation.phase());
  return unless_lost(operation.phase(), [&] { return move(operation); });
}

void Exchange::start(Operation& operation) {
  in_step(operation.phase(), [&] { operation.start(*transport_); });
}

bool Exchange::move(Operation& operation, bool may_rest) {
  return in_step(operation.phase(), [&] {
    try {
      return operation.advance(*transport_, may_rest);
    } catch (const RankLost&) {
      throw RankLost{.ranks = transport_->lost()};
    }
  });
}

void Exchange::attend(std::string_view phase) {
  require_unbroken(phase);
  in_step(phase, [&] {
    internal::Wait::here().check();
    if (size() == 1 || deadline_.count() <= 0 || Clock::now() < next_look_) return;
    next_look_ = Clock::now() + kLook;
    if (answer()) give_up(phase);
  });
}

// Whether somebody is missed. Looks at all that has come: it may have been decided since.
bool Exchange::answer() {
  bool is_missed = false;
  bool is_progress = false;
  while (const auto mail = transport_->take()) {
    const std::string& message = mail->text;
    if (message.starts_with(kVerdict)) {
      if (rank() == 0) tell_others(message);  // it comes late: only those who missed it know so far
      fail(message.substr(1));
    }
    if (message == kAreYouThere) transport_->post(0, kHere);
    is_missed |= message == kMissing;
    is_progress |= message == kProgress;
  }
  if (is_progress) {
    heard_ = DeadlineClock::now();
    if (rank() == 0) show_progress();
  }
  return is_missed;
}

void Exchange::show_progress() {
  if (size() == 1 || deadline_.count() <= 0 || background_ != nullptr || is_broken()) return;
  if (Clock::now() < next_sign_) return;
  next_sign_ = Clock::now() + deadline_ / 4;
  rank() == 0 ? tell_others(kProgress) : transport_->post(0, kProgress);
}

void Exchange::give_up(std::string_view phase) {
  if (rank() == 0) call_the_roll(phase);
  transport_->post(0, kMissing);
  await_verdict();
  std::string verdict = text_of(phase, {0}, kLate);
  transport_->post(0, std::string(kVerdict) + verdict);
  fail(std::move(verdict));
}

void Exchange::await_verdict() {
  Backoff backoff;
  for (const auto until = Clock::now() + kForVerdict; Clock::now() < until; backoff.wait()) answer();
}

// Rank 0 only.
void Exchange::call_the_roll(std::string_view phase) {
  std::set<int> missing;
  for (int rank = 1; rank < size(); ++rank) missing.insert(rank);
  tell_others(kAreYouThere);
  Backoff backoff;
  for (const auto until = Clock::now() + kRoll; Clock::now() < until && !missing.empty(); backoff.wait()) {
    while (const auto mail = transport_->take()) missing.erase(mail->from);
  }
  std::string verdict =
      missing.empty()
          ? fmt::format("{}: all ranks are there by now, but not all were before the deadline", phase)
          : text_of(phase, {missing.begin(), missing.end()}, kLate);
  tell_others(std::string(kVerdict) + verdict);
  fail(std::move(verdict));
}

// The one that finds it first tells all others. Where nobody can be named yet, the deadline has to.
void Exchange::lose(std::string_view phase, const std::vector<int>& lost) {
  if (lost.empty()) return;
  answer();                              // another may have told
  if (lost.size() > 1) await_verdict();  // some may have ended for the one that was lost, of which they told
  std::string verdict = text_of(phase, lost, kGone);
  tell_others(std::string(kVerdict) + verdict);
  fail(std::move(verdict));
}

std::string Exchange::text_of(std::string_view phase, const std::vector<int>& missing,
                              std::string_view what) const {
  std::vector<int> named = missing;
  if (!names_.empty()) {
    for (int& rank : named) rank = names_[static_cast<std::size_t>(rank)];
  }
  return fmt::format("{}: rank{} {} {}", phase, named.size() > 1 ? "s" : "", fmt::join(named, ", "), what);
}

void Exchange::fail(std::string verdict) {
  break_off(verdict);
  throw internal::failure(ErrorCode::timeout, "{}; end the job", verdict);
}

void Exchange::tell_others(std::string_view message) {
  for (int other = 0; other < size(); ++other) {
    if (other != rank()) transport_->post(other, message);
  }
}

}  // namespace rota::ranks
