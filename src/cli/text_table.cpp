#include "cli/text_table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rota::trace {

std::string grouped(std::int64_t value) {
  std::string digits = std::to_string(value);
  const std::ptrdiff_t sign = value < 0 ? 1 : 0;
  for (auto i = static_cast<std::ptrdiff_t>(digits.size()) - 3; i > sign; i -= 3) {
    digits.insert(static_cast<std::size_t>(i), 1, ',');
  }
  return digits;
}

std::string TextTable::text() const {
  std::vector<std::size_t> widths(rows_.front().size());
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c) {
      text += c < left_columns_ ? fmt::format("  {:<{}}", row[c], widths[c])
                                : fmt::format("  {:>{}}", row[c], widths[c]);
    }
    text += '\n';
  }
  return text;
}

}  // namespace rota::trace
