#pragma once

// Lets a thread in the background have its operations started and completed by the thread that may call MPI.

#include <condition_variable>
#include <exception>
#include <mutex>
#include <string_view>

#include "mpi/exchange.hpp"

namespace rota::mpi {

/// One operation at a time goes from the *background* thread to the *caller's*, which comes by when it likes.
class Relay {
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
  /// Caller's: what is handed over, now or later, fails. Whether the background thread had ended.
  bool go();

 private:
  // Runs `work` on the operation handed over, if any, and gives it back where that says that it is complete,
  // or throws.
  template <typename Work>
  void serve(Work&& work);

  std::mutex mutex_;
  std::condition_variable changed_;
  Operation* operation_ = nullptr;
  std::exception_ptr error_;
  bool has_ended_ = false;
  bool has_gone_ = false;
};

}  // namespace rota::mpi
