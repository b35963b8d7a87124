#pragma once

// What ranks send one another of a dataset, and formats keep of its files, as bytes.

#include <cereal/types/map.hpp>
#include <cereal/types/optional.hpp>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/open_context.hpp"
#include "rota/cereal.hpp"

namespace rota::internal {

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
  return from_blob<decltype(make())>(context.on_first_rank(phase, [&] { return to_blob(make()); }));
}

}  // namespace rota::internal
