#pragma once

// Who opens a dataset together.

#include <functional>
#include <string>
#include <string_view>

#include "mpi/nodes.hpp"
#include "rota/catalog.hpp"

namespace rota {

/// The ranks that open a dataset together, with how many threads each, and whom they tell.
struct Crew {
  /// **Collective** over `how.comm`. Throws as how.validate() does.
  explicit Crew(const CatalogOptions& how);

  CatalogOptions options;  ///< without the communicator
  mpi::Nodes nodes;

  /// **Collective.** What `make` returns on rank 0, on all. Throws on all what it throws.
  [[nodiscard]] std::string on_first_rank(std::string_view phase,
                                          const std::function<std::string()>& make) const;
};

}  // namespace rota
