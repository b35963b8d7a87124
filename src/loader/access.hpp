#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "loader/skip_counter.hpp"
#include "order/order.hpp"
#include "rota/loader.hpp"
#include "source/content.hpp"

namespace rota::internal {

/// A position, and what else it takes to go there.
struct LoaderPosition {
  Position position;
  std::optional<MixtureState> mixture = {};  ///< of a loader that mixes
};

/// What saves and restores know of a loader beyond its interface.
class LoaderAccess {
 public:
  /// What all ranks' loaders must have in common, by lines.
  [[nodiscard]] static std::string described(const Loader& loader);
  /// The weights that a loader of a mixture was made with, quantised.
  [[nodiscard]] static const std::vector<std::int64_t>& given_weights(const Loader& loader);
  [[nodiscard]] static SkipCounter& counter(const Loader& loader);
  /// Of all its datasets. Reads them the first time.
  [[nodiscard]] static const std::vector<SampleContent>& content(const Loader& loader);
  /// Of each of its datasets.
  [[nodiscard]] static const std::vector<Order>& orders(const Loader& loader);
  /// Throws as Loader::seek where that would refuse to go to `place`. Goes nowhere.
  static void require_place(const Loader& loader, const LoaderPosition& place);
  /// As Loader::cursors, of a place that the loader may go to.
  static void cursors(const Loader& loader, const LoaderPosition& place, std::int64_t first,
                      std::span<std::int64_t> out);
};

}  // namespace rota::internal
