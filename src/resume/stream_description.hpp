#pragma once

#include <string>
#include <string_view>

#include "rota/checkpoint.hpp"

namespace rota::internal {

/// What `describe_loader` says of a StreamLoader, and of one of a Dispatch.
[[nodiscard]] std::string describe_stream(const Checkpoint& checkpoint, std::string_view name);
[[nodiscard]] std::string describe_dispatch(const Checkpoint& checkpoint, std::string_view name);

}  // namespace rota::internal
