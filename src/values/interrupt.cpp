#include "values/interrupt.hpp"

namespace rota::internal {
namespace {

thread_local InterruptScope* innermost = nullptr;

}  // namespace

InterruptScope::InterruptScope(Check check) noexcept
    : check_(check), outer_(innermost), due_(std::chrono::steady_clock::now() + kInterval) {
  innermost = this;
}

InterruptScope::~InterruptScope() { innermost = outer_; }

bool InterruptScope::is_open() noexcept { return innermost != nullptr; }

bool InterruptScope::is_due() noexcept {
  return is_open() && std::chrono::steady_clock::now() >= innermost->due_;
}

void InterruptScope::ask() {
  innermost->due_ = std::chrono::steady_clock::now() + kInterval;
  innermost->check_();
}

}  // namespace rota::internal
