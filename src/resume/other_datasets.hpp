#pragma once

// A loader that goes on from a state of other datasets.

#include <optional>

#include "loader/ordered_source.hpp"
#include "resume/loader_state.hpp"
#include "resume/renumbering.hpp"
#include "rota/loader.hpp"

namespace rota::internal {

/// The datasets of a loader as a state has those that have grown since: each in parts.
struct InParts {
  Mixture mixture;
  LoaderOptions options;
  OrderedSource ordered;
};

/// A loader that goes on from `saved`, which must outlive it. Nothing is changed before `take`.
class Renewal : public Renumbering {
 public:
  /// Throws as Renumbering, and Error{mismatch} where samples have other content than then.
  Renewal(Loader& loader, const SavedState& saved);
  /// Of what the loader will read.
  [[nodiscard]] AskContent ask_content(AskContent own) const;
  /// The loader is over the datasets that there are now; one that is not there has no source.
  void take();

 private:
  Renewal(Loader& loader, const SavedState& saved, std::optional<InParts> parts);

  Loader& loader_;
  LoaderOptions options_;
  std::optional<OrderedSource> ordered_ = {};
};

}  // namespace rota::internal
