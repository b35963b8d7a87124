#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rota::internal {

/// How many bytes the UTF-8 character at the start of `text` takes; 0 where it begins none.
std::size_t character_bytes(std::string_view text) noexcept;

/// `text` on one line, which does nothing to a terminal: \n, \t, \r, \\, and \xHH for each byte of any other
/// control character, of what turns the direction of writing, and of what is no UTF-8.
std::string shown(std::string_view text);

/// A text without the names and passwords that stand before "@" in its URLs.
std::string without_users(std::string_view text);

}  // namespace rota::internal
