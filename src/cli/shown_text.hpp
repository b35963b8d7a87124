#pragma once

// What people are shown: names and text that others wrote, numbers, tables.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rota::cli {

/// How many bytes the UTF-8 character at the start of `text` takes; 0 where it begins none.
std::size_t character_bytes(std::string_view text) noexcept;

/// `text` on one line, which does nothing to a terminal: \n, \t, \r, \\, and \xHH for each byte of any other
/// control character, of what turns the direction of writing, and of what is no UTF-8.
std::string shown(std::string_view text);

/// 1234567 as "1,234,567".
std::string grouped(std::int64_t value);

/// "1 file", "1,234 files"; `things` where they are not `thing` and an s.
std::string counted(std::int64_t n, std::string_view thing, std::string_view things = {});

/// 1536 as "1.5 KiB".
std::string human_bytes(std::int64_t bytes);

/// `rows` of as many cells each, the first of them heads, in columns: `left_columns` aligned to the left, the
/// others to the right. Each line is indented by two spaces and ended.
std::string table_text(const std::vector<std::vector<std::string>>& rows, std::size_t left_columns = 0);

}  // namespace rota::cli
