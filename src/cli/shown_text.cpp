#include "cli/shown_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace rota::cli {

std::string grouped(std::int64_t value) {
  std::string digits = std::to_string(value);
  const std::ptrdiff_t sign = value < 0 ? 1 : 0;
  for (auto i = static_cast<std::ptrdiff_t>(digits.size()) - 3; i > sign; i -= 3) {
    digits.insert(static_cast<std::size_t>(i), 1, ',');
  }
  return digits;
}

std::string counted(std::int64_t n, std::string_view thing, std::string_view things) {
  if (n != 1 && !things.empty()) return fmt::format("{} {}", grouped(n), things);
  return fmt::format("{} {}{}", grouped(n), thing, n == 1 ? "" : "s");
}

std::string human_bytes(std::int64_t bytes) {
  constexpr std::array kUnits{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return counted(bytes, "byte");
  double amount = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; amount >= 1023.95 && unit + 1 < kUnits.size(); ++unit) amount /= 1024;  // as it is rounded
  return fmt::format("{:.1f} {}", amount, kUnits[unit]);
}

std::string table_text(const std::vector<std::vector<std::string>>& rows, std::size_t left_columns) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) {
      text += c < left_columns ? fmt::format("  {:<{}}", row[c], widths[c])
                               : fmt::format("  {:>{}}", row[c], widths[c]);
    }
    text += '\n';
  }
  return text;
}

}  // namespace rota::cli
