#pragma once

// A sum over ranks that nobody waits for: begun at one step, ended at the next, and under way in between.

#include <array>
#include <cstdint>
#include <memory>

#include "rota/mpi.hpp"

namespace rota::mpi {

class Operation;

/// Sums a few numbers over ranks, again and again, one sum at a time. *One thread.*
class LaggingSum {
 public:
  using Values = std::array<std::int64_t, 4>;

  /// Of this process alone.
  LaggingSum() noexcept;
  /// **Collective** over `comm`, which is duplicated. Throws Error{io}.
  explicit LaggingSum(const Communicator& comm);
  /// Waits up to half a second for a sum under way, so that others can end it; then leaves it to itself.
  ~LaggingSum();
  LaggingSum(LaggingSum&& other) noexcept;
  LaggingSum& operator=(LaggingSum&& other) noexcept;

  [[nodiscard]] const Communicator& comm() const noexcept { return comm_; }
  [[nodiscard]] bool is_under_way() const noexcept { return values_ != nullptr; }
  /// **Collective**, but does not wait. Throws Error{io}.
  void begin(const Values& mine);
  /// **Collective.** The sum under way, over all ranks. Waits for those that have not begun it. Throws
  /// Error{io}.
  Values end();

 private:
  Communicator comm_;
  std::shared_ptr<Values> values_;
  std::unique_ptr<Operation> operation_;
};

}  // namespace rota::mpi
