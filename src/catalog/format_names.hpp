#pragma once

// The names of the formats that files can be opened as.

#include <span>
#include <string_view>

namespace rota::internal {

/// All names, "auto" first.
std::span<const std::string_view> format_names() noexcept;

/// Throws Error{invalid_argument} for a format of another name; `attempt` is what is tried ("open data").
void require_format(std::string_view attempt, std::string_view format);

}  // namespace rota::internal
