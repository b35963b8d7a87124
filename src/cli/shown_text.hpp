#pragma once

// What others wrote, made fit to be shown: names, text of samples, amounts of bytes.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rota::cli {

/// How many bytes the UTF-8 character at the start of `text` takes; 0 where it begins none.
std::size_t character_bytes(std::string_view text) noexcept;

/// `text` on one line, which does nothing to a terminal: \n, \t, \r, \\, and \xHH for each byte of any other
/// control character, of what turns the direction of writing, and of what is no UTF-8.
std::string shown(std::string_view text);

/// 1536 as "1.5 KiB".
std::string human_bytes(std::int64_t bytes);

/// "1 file", "1,234 files".
std::string counted(std::int64_t n, std::string_view thing);

}  // namespace rota::cli
