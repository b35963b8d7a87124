#pragma once

// Blobs of loaders' states: a version that every reader understands, and what is of that version.

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "rota/cereal.hpp"
#include "rota/checkpoint.hpp"
#include "rota/error.hpp"

namespace rota::internal {

struct StateEnvelope {
  std::uint32_t version = 0;
  std::string state;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(version, state);
  }
};

/// `state`, which is of `version`, as a blob.
template <typename State>
[[nodiscard]] auto to_state_blob(std::uint32_t version, const State& state) {
  return to_blob(StateEnvelope{.version = version, .state = to_blob(state)});
}

/// The state in blob `name`. Throws Error{unsupported} for one of a version above `newest`; `whose` is that
/// of "a loader", say.
template <typename State>
[[nodiscard]] State from_state_blob(const Checkpoint& checkpoint, const std::string& name,
                                    std::uint32_t newest, std::string_view whose) {
  const auto envelope = from_blob<StateEnvelope>(checkpoint.blob(name));
  if (envelope.version > newest) {
    throw Error(ErrorCode::unsupported,
                fmt::format("restore {} from {}: its state is of version {}, and this rota reads up to {}",
                            whose, checkpoint.info().path.string(), envelope.version, newest));
  }
  return from_blob<State>(envelope.state);
}

}  // namespace rota::internal
