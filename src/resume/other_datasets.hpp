#pragma once

// Datasets of a mixture that come and go between a state and the program that goes on from it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "loader/ordered_source.hpp"
#include "resume/saved_state.hpp"
#include "rota/loader.hpp"

namespace rota::internal {

/// A mixture as a state numbers its datasets: those that it knows keep their numbers, new ones come behind,
/// and one that is not there any more has its number without a source, at weight 0.
struct Renumbered {
  LoaderOptions options;  ///< with a plan by these numbers
  OrderedSource ordered;
  Json state;                            ///< the same place, of all these datasets
  std::int64_t added = 0;                ///< datasets that the state does not know
  std::vector<std::size_t> absent = {};  ///< numbers without a source
};

/// The mixture of `loader` by the numbers of `saved`; nothing where it has these, or where datasets have no
/// names. Throws Error{mismatch} for a dataset that is another one now, or that the state cannot do without.
[[nodiscard]] std::optional<Renumbered> renumbered(const SavedState& saved, const Loader& loader);

/// A loader that goes on from `saved`, which must outlive it. Nothing is changed before `take`.
class Renewal {
 public:
  /// Throws as `renumbered`.
  Renewal(Loader& loader, const SavedState& saved);
  /// As of the datasets that there are now.
  [[nodiscard]] const SavedState& saved() const noexcept { return state_ ? *state_ : saved_; }
  /// Of these, at their beginning.
  [[nodiscard]] const Run& run() const noexcept { return made_ ? made_->ordered.run : loader_.run(); }
  /// Datasets that the state does not know.
  [[nodiscard]] std::int64_t added() const noexcept { return made_ ? made_->added : 0; }
  /// Datasets that are not there have no turns from the place of `moved` on. Throws Error{mismatch} where
  /// weights that are on their way would give them some.
  void settle(Run& moved) const;
  /// The loader is over these.
  void take();

 private:
  Loader& loader_;
  const SavedState& saved_;
  std::optional<Renumbered> made_;
  std::optional<SavedState> state_ = {};
};

}  // namespace rota::internal
