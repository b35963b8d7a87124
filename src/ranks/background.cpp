#include "ranks/background.hpp"

#include <chrono>
#include <utility>

#include "core/caught.hpp"
#include "ranks/backoff.hpp"
#include "ranks/collectives.hpp"
#include "rota/error.hpp"

namespace rota::ranks {

Background::Background(const Communicator& comm, std::function<void()> work)
    : exchange_(is_alone(comm) ? nullptr : &exchange_of(comm)), work_(std::move(work)) {
  try {
    if (exchange_ != nullptr) exchange_->go_through(this);
    thread_ = std::jthread([this] { run(); });
  } catch (...) {  // too many threads, or no memory: other ranks have begun, and wait for this one
    if (exchange_ != nullptr) exchange_->go_through(nullptr);
  }
}

Background::~Background() {
  if (thread_.joinable()) {
    if (!refuse_operations() && exchange_ != nullptr) {
      exchange_->break_off("work in the background was given up");
    }
    thread_.join();
  }
  if (exchange_ != nullptr) exchange_->go_through(nullptr);
}

void Background::run() noexcept {
  failure_ = internal::thrown_by(work_);
  const internal::MutexLock lock(mutex_);
  has_ended_ = true;
  changed_.notify_all();
}

void Background::hand_over(Operation& operation) {
  const internal::MutexLock lock(mutex_);
  operation_ = &operation;
  changed_.notify_all();
  while (operation_ != nullptr && !is_refusing_) changed_.wait(mutex_);
  if (std::exchange(operation_, nullptr) != nullptr) {
    throw Error(ErrorCode::timeout,
                operation.phase() + ": the object that does this in the background was destroyed meanwhile");
  }
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

template <typename Complete>
void Background::serve(Complete&& complete) {
  if (operation_ == nullptr) return;
  try {
    if (!complete(*operation_)) return;
  } catch (...) {
    error_ = std::current_exception();
  }
  operation_ = nullptr;
  changed_.notify_all();
}

// Whether the work had ended.
bool Background::refuse_operations() {
  constexpr auto kLastMove = std::chrono::milliseconds(100);
  const internal::MutexLock lock(mutex_);
  Backoff backoff;
  for (const auto until = DeadlineClock::now() + kLastMove; DeadlineClock::now() < until; backoff.wait()) {
    if (operation_ == nullptr || !operation_->is_started()) break;
    serve([&](Operation& operation) { return exchange_->advance(operation); });
  }
  is_refusing_ = true;
  changed_.notify_all();
  return has_ended_;
}

bool Background::poll() {
  if (!thread_.joinable()) return false;
  const internal::MutexLock lock(mutex_);
  serve([&](Operation& operation) { return exchange_->advance(operation); });
  return has_ended_;
}

void Background::finish(std::string_view what) {
  if (!thread_.joinable()) return work_();
  constexpr auto kLook = std::chrono::milliseconds(20);  // other ranks may ask whether this one is there
  {
    const internal::MutexLock lock(mutex_);
    while (!has_ended_) {
      serve([&](Operation& operation) {
        exchange_->complete(operation);
        return true;
      });
      changed_.wait_for(mutex_, kLook,
                        [&]() ROTA_REQUIRES(mutex_) { return operation_ != nullptr || has_ended_; });
      const bool is_busy = operation_ == nullptr && !has_ended_;
      if (is_busy && exchange_ != nullptr && !exchange_->is_broken()) exchange_->attend(what);
    }
  }
  if (failure_) std::rethrow_exception(failure_);
}

}  // namespace rota::ranks
