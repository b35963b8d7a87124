#pragma once

// What people are shown: names and text that others wrote, numbers, tables.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/shown.hpp"

namespace rota::cli {

using internal::character_bytes;
using internal::shown;

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
