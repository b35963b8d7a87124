#pragma once

#include <string_view>

namespace rota::internal {

/// Tells the process's MessageSink. *Any thread.*
void tell(std::string_view message) noexcept;

}  // namespace rota::internal
