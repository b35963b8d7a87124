#include "ranks/exchange.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/failure.hpp"
#include "core/message.hpp"
#include "ranks/background.hpp"
#include "ranks/messages.hpp"

namespace rota::ranks {
namespace {

// Messages beside the operations. The first character says which.
constexpr std::string_view kMissing = "?";      // to rank 0: somebody is missing
constexpr std::string_view kAreYouThere = "r";  // and the number of the question
constexpr std::string_view kHere = "h";         // and the same
constexpr std::string_view kProgress = "p";
constexpr std::string_view kVerdict = "v";

// How long a rank listens to the roll, and how long others wait for what rank 0 says, after each sign of it.
constexpr auto kRoll = std::chrono::milliseconds(700);
constexpr auto kForVerdict = std::chrono::milliseconds(1500);

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
    if (size() == 1 || Clock::now() < next_look_) return;
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
    if (mail->from == 0) heard_first_ = Clock::now();
    if (message.starts_with(kVerdict)) {
      if (rank() == 0) tell_others(message);  // it comes late: only those who missed it know so far
      fail(message.substr(1));
    }
    if (message.starts_with(kAreYouThere)) {
      transport_->post(mail->from, fmt::format("{}{}", kHere, message.substr(1)));
    }
    if (message == fmt::format("{}{}", kHere, asked_)) silent_.erase(mail->from);
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
  std::string verdict = transport_->first_said({});
  if (verdict.empty()) verdict = text_of(phase, {0}, kLate);  // as far as this one can tell
  transport_->post(0, std::string(kVerdict) + verdict);
  fail(std::move(verdict));
}

void Exchange::await_verdict() {
  heard_first_ = Clock::now();
  for (Backoff backoff; Clock::now() < heard_first_ + kForVerdict; backoff.wait()) answer();
}

// Rank 0 asks all others. Those ask rank 0, which speaks for all where it waits, too, and the rank before
// them, which may do so else: of a thousand ranks one speaks.
void Exchange::ask_who_is_there() {
  ++asked_;
  silent_.clear();
  for (int other = 0; other < size(); ++other) {
    if (other != rank() && (rank() == 0 || other == 0 || other == rank() - 1)) silent_.insert(other);
  }
  for (const int other : silent_) transport_->post(other, fmt::format("{}{}", kAreYouThere, asked_));
}

// Rank 0 only.
void Exchange::call_the_roll(std::string_view phase) {
  ask_who_is_there();
  Backoff backoff;
  for (const auto until = Clock::now() + kRoll; Clock::now() < until && !silent_.empty(); backoff.wait()) {
    answer();
  }
  std::string verdict = transport_->first_said(
      silent_.empty()
          ? fmt::format("{}: all ranks are there by now, but not all were before the deadline", phase)
          : text_of(phase, {silent_.begin(), silent_.end()}, kLate));
  tell_others(std::string(kVerdict) + verdict);
  fail(std::move(verdict));
}

// A rank that has gone may be no neighbour, in a call that goes around them. Returns false.
bool Exchange::probe(LongWait& wait) {
  wait.next_probe += kProbe;
  if (auto lost = transport_->lost(); !lost.empty()) throw RankLost{.ranks = std::move(lost)};
  return false;
}

// Asks, and a moment later names those who are silent. Where nobody can be asked, ranks speak for themselves,
// most of them later.
void Exchange::explain(std::string_view phase, LongWait& wait) {
  const bool may_ask = transport_->may_ask();
  if (!std::exchange(wait.has_begun, true)) {
    if (may_ask) ask_who_is_there();
    wait.next = DeadlineClock::now() + (may_ask ? kRoll : kPatience * (rank() > 1 ? 10 : 0));
    return;
  }
  wait.next = DeadlineClock::time_point::max();
  const std::size_t asked = rank() > 1 ? 2 : 1;
  if (may_ask && (rank() == 0 ? silent_.empty() : silent_.size() < asked)) return;
  internal::tell(fmt::format(
      "{}: waits for {}, for {} s now; all ranks of a communicator of rota come here. What one rank makes "
      "alone takes a World or a default-made Communicator; in Python world=(0, 1), or comm=None",
      phase, may_ask ? shown({silent_.begin(), silent_.end()}) : "other ranks", kPatience.count()));
}

// The one that finds it first tells all others. Where nobody can be named yet, the deadline has to.
void Exchange::lose(std::string_view phase, const std::vector<int>& lost) {
  if (lost.empty()) return;
  answer();                              // another may have told
  if (lost.size() > 1) await_verdict();  // some may have ended for the one that was lost, of which they told
  std::string verdict = transport_->first_said(text_of(phase, lost, kGone));
  tell_others(std::string(kVerdict) + verdict);
  fail(std::move(verdict));
}

std::string Exchange::text_of(std::string_view phase, const std::vector<int>& missing,
                              std::string_view what) const {
  return fmt::format("{}: {} {}", phase, shown(missing), what);
}

std::string Exchange::shown(std::vector<int> ranks) const {
  constexpr std::size_t kMost = 16;
  for (int& rank : ranks) rank = names_.empty() ? rank : names_[static_cast<std::size_t>(rank)];
  const std::string more = ranks.size() > kMost ? fmt::format(" and {} more", ranks.size() - kMost) : "";
  if (ranks.size() > kMost) ranks.resize(kMost);
  return fmt::format("rank{} {}{}", ranks.size() > 1 ? "s" : "", fmt::join(ranks, ", "), more);
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
