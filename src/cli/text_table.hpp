#pragma once

// Tables of text, for people.

#include <cstdint>
#include <string>
#include <vector>

namespace rota::tracing {

/// 1234567 as "1,234,567".
std::string grouped(std::int64_t value);

/// Columns of text, aligned to the right under their heads. *One thread.*
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> heads) : rows_{std::move(heads)} {}

  /// Adds a row of as many cells as there are heads.
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  /// The table, each line indented by two spaces and ended.
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace rota::tracing
