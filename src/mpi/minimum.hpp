#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "mpi/exchange.hpp"
#include "rota/mpi.hpp"

namespace rota::mpi {

/// The least of one number of each rank, again and again: given early, without waiting, and asked for late.
/// *One thread.*
class Minimum {
 public:
  /// **Collective** over `comm`, which is duplicated; null: this process alone. A rank that comes later than
  /// `deadline` is given up; zero: never.
  Minimum(const Communicator* comm, std::chrono::milliseconds deadline, std::string_view phase);
  /// Waits for nobody: unless it is quiet, the communicator is never freed.
  ~Minimum();
  Minimum(const Minimum&) = delete;
  Minimum& operator=(const Minimum&) = delete;

  [[nodiscard]] const Communicator& comm() const noexcept { return comm_; }
  /// Whether this rank has given its number of the round at hand.
  [[nodiscard]] bool is_posted() const noexcept { return round_ != nullptr; }
  /// **Collective**, but does not wait: gives this rank's number of the next round. Throws Error{io},
  /// Error{timeout}.
  void post(std::int64_t value);
  /// **Collective.** The least number of the round. Throws Error{io}, Error{timeout} naming the missing, now
  /// and from then on.
  [[nodiscard]] std::int64_t finish();
  /// Calls `is_done` until it says so. Throws what that throws, and what `finish` throws.
  void await(const std::function<bool()>& is_done);
  /// Says whether all ranks know that none has given a number of a round that others have not come to. It is
  /// quiet at first, and all ranks are to say the same. (A communicator that one rank frees while messages of
  /// another are on their way may be mixed up with a new one.)
  void set_quiet(bool is_quiet) noexcept { is_quiet_ = is_quiet; }
  /// **Collective.** As `mpi::agree`, by the deadline.
  void agree(const std::exception_ptr& error);

 private:
  Communicator comm_;
  Exchange exchange_;
  std::string phase_;
  std::shared_ptr<std::int64_t> least_;
  std::unique_ptr<Operation> round_;
  bool is_quiet_ = true;
};

}  // namespace rota::mpi
