#pragma once

// Texts: whole numbers; lines that are compared, among ranks above all; and what a terminal can show.

#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace rota::internal {

/// The decimal number that all of `text` is, if it is one that Number has.
template <typename Number>
[[nodiscard]] std::optional<Number> whole_number(std::string_view text) noexcept {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

/// Without their ends.
[[nodiscard]] std::vector<std::string_view> lines_of(std::string_view text);
/// The first lines at one place that differ, "nothing" past the end of one; two empty ones where none do.
[[nodiscard]] std::pair<std::string_view, std::string_view> first_difference(std::string_view one,
                                                                             std::string_view other);
/// Throws Error{mismatch} with the first line that differs from rank 0's.
void require_same_lines(std::string_view task, std::string_view mine, std::string_view first);

/// How many bytes the UTF-8 character at the start of `text` takes; 0 where it begins none.
std::size_t character_bytes(std::string_view text) noexcept;

/// `text` on one line, which does nothing to a terminal: \n, \t, \r, \\, and \xHH for each byte of any other
/// control character, of what turns the direction of writing, and of what is no UTF-8.
std::string shown(std::string_view text);

/// A text without the names and passwords that stand before "@" in its URLs.
std::string without_users(std::string_view text);

}  // namespace rota::internal
