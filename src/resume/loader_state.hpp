#pragma once

// A loader's state as a value: what defines the order of its run, and how far it is.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "loader/access.hpp"
#include "resume/refusal.hpp"
#include "rota/checkpoint.hpp"
#include "rota/loader.hpp"

namespace rota::internal {

/// What the order of a run is known by; it must be the same wherever the run goes on.
struct OrderIdentity {
  std::int64_t version = 0;
  std::string dataset;  // its fingerprint
  std::int64_t samples = 0;
  std::int64_t shards = 0;  // of each dataset
  std::string lengths;      // a digest of those of all shards
  std::int64_t interleave = 0;
  std::string shuffle;
  std::string seed;
  BlockShape block;
};

/// Blob "loader/<name>/state" and what `state` returns are this, as JSON.
struct LoaderState {
  OrderIdentity order;
  LoaderPosition place;
  std::optional<std::int64_t> skipped = {};  // as all ranks know; in a checkpoint it is a tensor
  std::int64_t global_batch_size = 0;        // from now on for people; the new program's count
  std::string tail;
  std::string epochs;
  std::int64_t world_size = 0;
};

/// Without what was skipped.
[[nodiscard]] LoaderState state_of(const Loader& loader);
[[nodiscard]] std::string to_text(const LoaderState& state);
/// Throws as `parse_state`, and Error{corrupt} for what no loader's state has.
[[nodiscard]] LoaderState loader_state(std::string_view text, const Refusal& refusal);

/// Throws Error{mismatch} unless both are of one order, Error{corrupt} for a place that it does not have.
/// Moves nothing.
void require_fits(const Loader& loader, const LoaderState& saved, const Refusal& refusal);

/// Of loader `name` of a checkpoint. Throws Error{not_found} where there is none, and as `parse_state`.
[[nodiscard]] std::string kind_of_loader(const Checkpoint& checkpoint, std::string_view name);

/// In a line for people.
[[nodiscard]] std::string describe(const LoaderState& state);

}  // namespace rota::internal
