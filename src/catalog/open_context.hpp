#pragma once

// Who opens a dataset together, and what they send one another, and formats keep of its files, as bytes.

#include <cereal/types/map.hpp>
#include <cereal/types/optional.hpp>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ranks/collectives.hpp"
#include "ranks/nodes.hpp"
#include "rota/catalog.hpp"
#include "rota/cereal.hpp"

namespace rota::internal {

/// The ranks that open a dataset together, with how many threads each, and which progress they report.
struct OpenContext {
  /// **Collective.** Throws as how.validate() does.
  OpenContext(const Communicator& comm, CatalogOptions how);

  CatalogOptions options;
  ranks::Nodes nodes;
};

/// **Collective** over `context`. What `make` returns here; throws on all ranks what it throws on one.
template <typename Make>
auto made_together(const OpenContext& context, std::string_view phase, Make&& make) {
  std::optional<decltype(make())> made;
  context.nodes.all().together(phase, [&] { made.emplace(make()); });
  return std::move(*made);
}

template <typename T>
std::vector<std::byte> serialize(const T& value) {
  const std::string blob = to_blob(value);
  const auto bytes = std::as_bytes(std::span(blob));
  return {bytes.begin(), bytes.end()};
}

/// The other way round. Throws as from_blob does.
template <typename T>
T deserialize(std::span<const std::byte> bytes) {
  return from_blob<T>({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

/// Bytes, filled up to a multiple of eight.
constexpr std::size_t filled_up(std::size_t bytes) { return (bytes + 7) / 8 * 8; }

/// **Collective** over `context`. What `make` returns on rank 0, on all. Throws on all what it throws.
template <typename Make>
auto made_on_first_rank(const OpenContext& context, std::string_view phase, Make&& make) {
  return from_blob<decltype(make())>(
      ranks::on_first_rank(context.nodes.all(), phase, [&] { return to_blob(make()); }));
}

}  // namespace rota::internal
