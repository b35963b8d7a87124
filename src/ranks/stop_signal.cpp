#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>

#include "ranks/collectives.hpp"
#include "rota/communicator.hpp"
#include "rota/error.hpp"

namespace rota {
namespace {

// A handler can reach nothing but static storage.
volatile std::sig_atomic_t signalled = 0;
std::atomic<pid_t> in_use = 0;  // by this process

constexpr std::array<int, 2> kSignals{SIGTERM, SIGUSR1};
std::array<struct sigaction, kSignals.size()> former_actions;

void restore_actions() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &former_actions[i], nullptr);
}

extern "C" void on_stop_signal(int signal);

bool has_handlers() {
  return std::ranges::all_of(kSignals, [](int signal) {
    struct sigaction now {};
    return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == on_stop_signal;
  });
}

extern "C" void on_stop_signal(int signal) {
  if (::getpid() == in_use) {
    signalled = 1;
    return;
  }
  restore_actions();  // a forked child has not been asked to go on
  static_cast<void>(::raise(signal));
}

}  // namespace

StopSignal::StopSignal(const Communicator& comm) : comm_(&comm) {
  ranks::require_ranks(comm);
  const pid_t former_user = in_use.exchange(::getpid());
  if (former_user == ::getpid()) {
    throw Error(
        ErrorCode::busy,
        "make a StopSignal: this process has one already; use that, or destroy it (in Python, close())");
  }
  signalled = 0;
  struct sigaction action {};
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  const bool is_new = former_user == 0;  // a child's former actions are those that its parent found
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], &action, is_new ? &former_actions[i] : nullptr);
  }
}

StopSignal::~StopSignal() {
  restore_actions();
  in_use = 0;
}

bool StopSignal::requested() {
  if (requested_) return true;
  constexpr std::int64_t kCannotBeTold = 2;
  std::int64_t any = has_handlers() ? signalled : kCannotBeTold;
  ranks::max(*comm_, "ask whether a rank was told to stop", std::span(&any, 1));
  if (any == kCannotBeTold) {
    throw Error(ErrorCode::busy,
                "ask whether a rank was told to stop: other code on a rank has taken the handlers of SIGTERM "
                "or SIGUSR1, as Lightning's Trainer does; leave them to one of both");
  }
  requested_ = any != 0;
  return requested_;
}

}  // namespace rota
