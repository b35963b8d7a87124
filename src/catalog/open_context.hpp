#pragma once

// Who opens a dataset together.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "mpi/nodes.hpp"
#include "rota/catalog.hpp"

namespace rota::internal {

/// The ranks that open a dataset together, with how many threads each, and which progress they report.
struct OpenContext {
  /// **Collective.** Throws as how.validate() does.
  OpenContext(const mpi::Communicator& comm, CatalogOptions how);

  CatalogOptions options;
  mpi::Nodes nodes;

  /// **Collective.** What `make` returns on rank 0, on all. Throws on all what it throws.
  [[nodiscard]] std::string on_first_rank(std::string_view phase,
                                          const std::function<std::string()>& make) const;
};

/// **Collective** over `context`. What `make` returns here; throws on all ranks what it throws on one.
template <typename Make>
auto made_together(const OpenContext& context, std::string_view phase, Make&& make) {
  std::optional<decltype(make())> made;
  mpi::together(context.nodes.all(), phase, [&] { made.emplace(make()); });
  return std::move(*made);
}

}  // namespace rota::internal
