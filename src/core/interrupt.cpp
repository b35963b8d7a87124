#include "core/interrupt.hpp"

#include <utility>

namespace rota::internal {
namespace {

thread_local InterruptScope* innermost = nullptr;

}  // namespace

InterruptScope::InterruptScope(Check check)
    : check_(std::move(check)), outer_(innermost), due_(std::chrono::steady_clock::now() + kInterval) {
  innermost = this;
}

InterruptScope::~InterruptScope() { innermost = outer_; }

bool InterruptScope::is_open() noexcept { return innermost != nullptr; }

bool InterruptScope::is_due() noexcept {
  return is_open() && std::chrono::steady_clock::now() >= innermost->due_;
}

void InterruptScope::ask() {
  innermost->due_ = std::chrono::steady_clock::now() + kInterval;
  innermost->ask_own();
}

void InterruptScope::ask_outer() {
  if (innermost->outer_ != nullptr) innermost->outer_->ask_own();
}

void InterruptScope::ask_own() try { check_(); } catch (...) {
  thrown_ = std::current_exception();
  throw;
}

bool InterruptScope::has_thrown(const std::exception_ptr& error) noexcept {
  for (const InterruptScope* scope = innermost; scope != nullptr; scope = scope->outer_) {
    if (error != nullptr && scope->thrown_ == error) return true;
  }
  return false;
}

StopScope::StopScope(std::stop_token stop)
    : scope_([stop = std::move(stop)] {
        struct Stopped {};
        if (stop.stop_requested()) throw Stopped();
      }) {}

}  // namespace rota::internal
