#pragma once

// Lets a thread in the background have its operations started and completed by the thread that may call MPI.

#include <condition_variable>
#include <exception>
#include <string_view>

#include "core/mutex.hpp"
#include "mpi/exchange.hpp"

namespace rota::mpi {

/// One operation at a time goes from the *background* thread to the *caller's*, which comes by when it likes.
class CallerThread {
 public:
  /// Background: has `operation` completed. Throws what that threw on the caller's thread, or Error{timeout}
  /// once the caller has gone.
  void run(Operation& operation);
  /// Background: there is no more to come.
  void end();

  /// Caller's: moves on what is handed over, without waiting. Whether the background thread has ended.
  bool poll(Exchange& exchange);
  /// Caller's: until the background thread has ended. The deadline of each operation begins here at the
  /// earliest.
  void finish(Exchange& exchange, std::string_view what);
  /// Caller's: what is handed over from now on fails. Whether the background thread had ended. What is
  /// started is completed first, if the others come to it soon.
  bool refuse_operations(Exchange& exchange);

 private:
  // Runs `work` on the operation handed over, if any, and gives it back where that says that it is complete,
  // or throws.
  template <typename Work>
  void serve(Work&& work) ROTA_REQUIRES(mutex_);

  internal::Mutex mutex_;
  std::condition_variable_any changed_;
  Operation* operation_ ROTA_GUARDED_BY(mutex_) = nullptr;
  std::exception_ptr error_ ROTA_GUARDED_BY(mutex_);
  bool has_ended_ ROTA_GUARDED_BY(mutex_) = false;
  bool is_refusing_ ROTA_GUARDED_BY(mutex_) = false;
};

}  // namespace rota::mpi
