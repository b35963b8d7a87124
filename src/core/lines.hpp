#pragma once

// Texts of lines that are compared, among ranks above all.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rota::internal {

/// Without their ends.
[[nodiscard]] std::vector<std::string_view> lines_of(std::string_view text);
/// The first lines at one place that differ, "nothing" past the end of one; two empty ones where none do.
[[nodiscard]] std::pair<std::string_view, std::string_view> first_difference(std::string_view one,
                                                                             std::string_view other);
/// Throws Error{mismatch} with the first line that differs from rank 0's.
void require_same_lines(std::string_view task, std::string_view mine, std::string_view first);

}  // namespace rota::internal
