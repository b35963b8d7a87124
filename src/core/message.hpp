#pragma once

#include <string_view>

#include "rota/message.hpp"

namespace rota::internal {

/// Tells the process's MessageSink. *Any thread.*
void tell(std::string_view message) noexcept;

}  // namespace rota::internal
