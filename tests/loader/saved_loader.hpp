#pragma once

// States of loaders that are made by hand, and how a loader takes them.

#include <nlohmann/json.hpp>

#include "test.hpp"

namespace rota::test {

/// Code and message of what `work` throws; nothing where it throws nothing.
struct Refused {
  ErrorCode code{};
  std::string why;
};
template <typename Work>
std::optional<Refused> refused(Work work) {
  try {
    work();
  } catch (const Error& error) {
    return Refused{error.code(), error.what()};
  }
  return std::nullopt;
}

/// The state in a checkpoint, without its cursors.
inline std::string saved_state(const Loader& loader) {
  auto json = nlohmann::json::parse(state(loader));
  json.erase("skipped");
  return json.dump();
}

inline std::vector<std::int64_t> cursors_of(const Loader& loader) {
  std::vector<std::int64_t> cursors(
      static_cast<std::size_t>(2 * loader.datasets() * loader.options().shards));
  loader.cursors(0, cursors);
  return cursors;
}

/// A checkpoint with that state and those cursors, whatever they are.
template <typename Number>
Checkpoint made_checkpoint(const std::string& state, const std::vector<Number>& cursors) {
  const TemporaryDirectory directory;
  CheckpointDirectory checkpoints(mpi::Communicator(), directory.path());
  Snapshot snapshot;
  snapshot.tensor("loader/main/cursors", {2}, std::ssize(cursors) / 2, cursors);
  snapshot.blob("loader/main/state", state);
  checkpoints.save(1, snapshot);
  return *checkpoints.latest();
}

}  // namespace rota::test
