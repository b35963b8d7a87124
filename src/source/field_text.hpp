#pragma once

// Fields in words, for messages.

#include <string>
#include <vector>

#include "rota/source.hpp"

namespace rota::internal {

/// As in: "x" int64 [2], "text" uint8 [*].
std::string describe(const std::vector<Field>& fields);

}  // namespace rota::internal
