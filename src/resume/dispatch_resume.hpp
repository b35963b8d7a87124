#pragma once

#include <string>
#include <string_view>

#include "rota/checkpoint.hpp"
#include "rota/snapshot.hpp"
#include "rota/stream_loader.hpp"

namespace rota::internal {

/// As `save`, `restore` and `state` of stream_loader.hpp, for a loader that is dispatched to.
void save_dispatch(const StreamLoader& loader, Snapshot& snapshot, std::string_view name);
void restore_dispatch(StreamLoader& loader, const Checkpoint& checkpoint, std::string_view name);
[[nodiscard]] std::string state_of_dispatch(const StreamLoader& loader);
void restore_dispatch(StreamLoader& loader, std::string_view state);

}  // namespace rota::internal
