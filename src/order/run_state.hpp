#pragma once

// A run's state: what defines its order, and how far it is. It is that of a Loader.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/state_text.hpp"
#include "order/run_order.hpp"

namespace rota::internal {

/// Of an order in a state: pairs of a fingerprint and of that which its dataset has now.
inline constexpr std::string_view kTakenFor = "taken_for";

/// The state of a run, of which so many samples were skipped, in a world of so many ranks; without a digest.
[[nodiscard]] OrderedJson state_of(const Run& run, std::optional<std::int64_t> skipped,
                                   std::int64_t world_size);

/// Its place, as `state_of` has it as "position".
[[nodiscard]] OrderedJson json_of(const Position& at);
[[nodiscard]] Position position_in(const JsonObject& json);

/// What of a state changes as a run goes on, from `run`.
void put_where(const Run& run, OrderedJson& state);

/// Where a saved state says that the run was. Throws Error{corrupt}.
[[nodiscard]] RunPlace place_of(const JsonObject& state);

/// Whether its batches were cut as those of `run`.
[[nodiscard]] bool has_tail_of(const JsonObject& state, const Run& run);

/// Names and fingerprints of a mixture's datasets, by number.
[[nodiscard]] std::vector<std::pair<std::string, Fingerprint>> datasets_in(const JsonObject& mixture);

/// As Run::from.
[[nodiscard]] Run run_of(const StateText& saved, const std::vector<RunData>& given = {});

/// Of the steps alone, and the place: in another order, of equal shards, so that it takes no lengths.
[[nodiscard]] Run steps_of(const StateText& saved);

/// What the runs of all ranks must have in common, by lines.
[[nodiscard]] std::string described(const Run& run);

/// In a line for people. Throws Error{corrupt}.
[[nodiscard]] std::string describe(const JsonObject& state);
[[nodiscard]] std::string describe_dataset(const JsonObject& order);

}  // namespace rota::internal
