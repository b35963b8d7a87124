#pragma once

// The way of a run in its state: by which stages and changes it came where it is, and goes on.

#include <cstdint>
#include <string_view>

#include "core/state_text.hpp"
#include "order/run_order.hpp"

namespace rota::internal {

inline constexpr std::string_view kWay = "way";

/// Adds it, where a run has a plan or was changed by hand, or takes away what there was. A state with a plan
/// is of version 3.
void put_way(const Run& run, OrderedJson& state);
/// Throws Error{corrupt} for what no run has.
[[nodiscard]] RunPlace::Way way_in(const JsonObject& json);

void put_mixture(const MixtureState& mixture, OrderedJson& json);
[[nodiscard]] MixtureState mixture_in(const JsonObject& mixture);
/// Of a batch.
[[nodiscard]] std::int64_t size_in(const JsonObject& json, std::string_view key);

}  // namespace rota::internal
