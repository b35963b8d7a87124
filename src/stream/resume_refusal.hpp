#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "rota/checkpoint.hpp"
#include "rota/error.hpp"

namespace rota::internal {

/// What stream loaders of all kinds have in common in a checkpoint: what they were made of, and how they
/// refuse it.
class SavedStream {
 protected:
  explicit SavedStream(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  /// Throws Error{mismatch} unless both are of the same source.
  template <typename State>
  void require_same_source(const State& saved, const State& here) const {
    require_same("the number of shards", saved.shards, here.shards);
    require_same("the number of a cursor's numbers", saved.cursor_numbers, here.cursor_numbers);
    require_same("the dataset's fingerprint", to_string(saved.dataset), to_string(here.dataset));
  }
  [[noreturn]] void fail(ErrorCode code, const std::string& why) const {
    throw Error(code,
                fmt::format("restore a stream loader from {}: {}", checkpoint_.info().path.string(), why));
  }

  [[nodiscard]] const Checkpoint& checkpoint() const noexcept { return checkpoint_; }

 private:
  template <typename Value>
  void require_same(std::string_view what, const Value& saved, const Value& here) const {
    if (saved == here) return;
    fail(ErrorCode::mismatch,
         fmt::format("{} differs: the checkpoint has {}, this loader has {}; a run can only go on with the "
                     "data and the transforms that it began with",
                     what, saved, here));
  }

  const Checkpoint& checkpoint_;
};

}  // namespace rota::internal
