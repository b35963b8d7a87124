#pragma once

// Tables of text, for people.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace rota::trace {

/// 1234567 as "1,234,567".
std::string grouped(std::int64_t value);

/// Columns of text under their heads, the first `left_columns` aligned to the left, the others to the right.
/// *One thread.*
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> heads, std::size_t left_columns = 0)
      : rows_{std::move(heads)}, left_columns_(left_columns) {}

  /// Adds a row of as many cells as there are heads.
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  /// The table, each line indented by two spaces and ended.
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::size_t left_columns_;
};

}  // namespace rota::trace
