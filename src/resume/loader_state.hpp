#pragma once

// A loader's state: what defines the order of its run, and how far it is.

#include <cstdint>
#include <optional>
#include <string>

#include "loader/loader_impl.hpp"
#include "resume/saved_state.hpp"
#include "rota/loader.hpp"

namespace rota::internal {

/// Blob "loader/<name>/state"; with what was skipped, as all ranks know, it is what `state` returns. In a
/// checkpoint that is a tensor. Reads no samples.
[[nodiscard]] OrderedJson state_of(const Loader& loader, std::optional<std::int64_t> skipped = {});

/// Adds what its dataset holds, which may have to be read.
void add_content(const Loader& loader, OrderedJson& state);

/// The place of a saved state. Throws Error{corrupt} for what no loader's state has, Error{mismatch} unless
/// it is of `loader`'s order and content, Error{corrupt} for a place that this does not have. Moves nothing.
[[nodiscard]] LoaderPosition require_fits(const Loader& loader, const SavedState& saved);

/// Where a saved state says that the loader was. Throws Error{corrupt}.
[[nodiscard]] LoaderPosition place_of(const JsonObject& state);

/// In a line for people. Throws Error{corrupt}.
[[nodiscard]] std::string describe(const JsonObject& state);

}  // namespace rota::internal
