#pragma once

// A reduction over ranks that nobody waits for: begun at one step, ended at the next, and under way in
// between.

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ranks/collectives.hpp"
#include "ranks/exchange.hpp"

namespace rota::ranks {

/// Reduces a few numbers over ranks, again and again, one reduction at a time. Once a deadline was missed it
/// is of no use any more: all that waits throws Error{timeout}. *One thread.*
class DeferredReduction {
 public:
  using Values = std::vector<std::int64_t>;

  /// **Collective** over `comm`, which is duplicated with this `deadline`. `phase` is what errors say was
  /// tried. Throws Error{io}, Error{timeout}.
  DeferredReduction(const Communicator& comm, Reduction reduction, std::chrono::milliseconds deadline,
                    std::string_view phase);
  /// Waits up to half a second for a reduction under way, so that others can end it; unless it is quiet, for
  /// nobody. What has not ended is left to itself, and the communicator is then never freed.
  ~DeferredReduction();
  DeferredReduction(const DeferredReduction&) = delete;
  DeferredReduction& operator=(const DeferredReduction&) = delete;

  [[nodiscard]] const Communicator& comm() const noexcept { return comm_; }
  [[nodiscard]] bool is_under_way() const noexcept { return operation_ != nullptr; }
  /// **Collective**, but does not wait: gives this rank's numbers, as many on all ranks. Throws Error{io}.
  void begin(Values mine);
  /// **Collective.** The reduction under way, over all ranks. Waits for those that have not begun it. Throws
  /// Error{io}, Error{timeout} naming the missing, now and from then on.
  [[nodiscard]] Values end();
  /// Of several ranks: calls `is_done` until it says so. Throws what that throws, and what `end` throws.
  void await(const std::function<bool()>& is_done);
  /// Says whether all ranks know that none has begun a reduction that others have not come to. It is quiet at
  /// first, and all ranks are to say the same. (A communicator that one rank frees while messages of another
  /// are on their way may be mixed up with a new one.)
  void set_quiet(bool is_quiet) noexcept { is_quiet_ = is_quiet; }
  /// **Collective.** As `ranks::agree`, by the deadline. No reduction may be under way.
  void agree(const std::exception_ptr& error);

 private:
  [[nodiscard]] bool ends_in_time(Exchange& exchange) noexcept;

  Communicator comm_;
  Reduction reduction_;
  std::string phase_;
  std::shared_ptr<Values> values_;
  std::unique_ptr<Operation> operation_;
  bool is_quiet_ = true;
};

}  // namespace rota::ranks
