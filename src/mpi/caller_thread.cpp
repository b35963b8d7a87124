#include "mpi/caller_thread.hpp"

#include <chrono>
#include <utility>

#include "mpi/backoff.hpp"
#include "rota/error.hpp"

namespace rota::mpi {

void CallerThread::run(Operation& operation) {
  const internal::MutexLock lock(mutex_);
  operation_ = &operation;
  changed_.notify_all();
  while (operation_ != nullptr && !is_refusing_) changed_.wait(mutex_);
  if (std::exchange(operation_, nullptr) != nullptr) {
    throw Error(ErrorCode::timeout,
                operation.phase() + ": the checkpoint directory was closed while it was saved to");
  }
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void CallerThread::end() {
  const internal::MutexLock lock(mutex_);
  has_ended_ = true;
  changed_.notify_all();
}

template <typename Work>
void CallerThread::serve(Work&& work) {
  if (operation_ == nullptr) return;
  try {
    if (!work(*operation_)) return;
  } catch (...) {
    error_ = std::current_exception();
  }
  operation_ = nullptr;
  changed_.notify_all();
}

bool CallerThread::refuse_operations(Exchange& exchange) {
  constexpr auto kLastMove = std::chrono::milliseconds(100);
  const internal::MutexLock lock(mutex_);
  Backoff backoff;
  for (const auto until = DeadlineClock::now() + kLastMove; DeadlineClock::now() < until; backoff.wait()) {
    if (operation_ == nullptr || !operation_->is_started()) break;
    serve([&](Operation& operation) { return exchange.advance(operation); });
  }
  is_refusing_ = true;
  changed_.notify_all();
  return has_ended_;
}

bool CallerThread::poll(Exchange& exchange) {
  const internal::MutexLock lock(mutex_);
  serve([&](Operation& operation) { return exchange.advance(operation); });
  return has_ended_;
}

void CallerThread::finish(Exchange& exchange, std::string_view what) {
  constexpr auto kLook = std::chrono::milliseconds(20);  // other ranks may ask whether this one is there
  const internal::MutexLock lock(mutex_);
  while (!has_ended_) {
    serve([&](Operation& operation) {
      exchange.finish(operation);
      return true;
    });
    changed_.wait_for(mutex_, kLook,
                      [&]() ROTA_REQUIRES(mutex_) { return operation_ != nullptr || has_ended_; });
    if (operation_ == nullptr && !has_ended_ && !exchange.is_broken()) exchange.attend(what);
  }
}

}  // namespace rota::mpi
