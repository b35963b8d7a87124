#pragma once

// Open samples in a state: handed out before its place, and not settled.

#include <string_view>

#include "core/state_text.hpp"
#include "order/run_order.hpp"

namespace rota::internal {

/// The key of what is open.
inline constexpr std::string_view kOpen = "open";

/// Adds what is open of `run` to a state, or takes away what it had. A state with such samples is of
/// version 2.
void put_open(const Run& run, OrderedJson& state);

/// What `put_open` has written of a run that is where the state says. Throws Error{corrupt} for what cannot
/// be open there.
[[nodiscard]] OpenTurns open_in(const JsonObject& state, const Run& run);

/// Of a state: it is that of one rank of several. Throws Error{mismatch} for such a one.
inline constexpr std::string_view kPart = "part";
void refuse_part(const StateText& saved);

/// Whether it was handed out before the place of `run`.
[[nodiscard]] bool is_before(const OpenTurn& one, const Run& run);

}  // namespace rota::internal
