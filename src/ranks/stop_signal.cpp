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
std::atomic<bool> in_use = false;

constexpr std::array<int, 2> kSignals{SIGTERM, SIGUSR1};
std::array<struct sigaction, kSignals.size()> former_actions;

extern "C" void on_stop_signal(int /*signal*/) { signalled = 1; }

}  // namespace

StopSignal::StopSignal(const Communicator& comm) : comm_(&comm) {
  ranks::require_ranks(comm);
  if (in_use.exchange(true)) {
    throw Error(ErrorCode::busy, "make a StopSignal: this process has one already; use that");
  }
  signalled = 0;
  struct sigaction action {};
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &former_actions[i]);
}

StopSignal::~StopSignal() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &former_actions[i], nullptr);
  in_use = false;
}

bool StopSignal::requested() {
  if (requested_) return true;
  std::int64_t any = signalled;
  ranks::max(*comm_, "ask whether a rank was told to stop", std::span(&any, 1));
  requested_ = any != 0;
  return requested_;
}

}  // namespace rota
