#pragma once

// Many file names in little memory: one text, and where each name starts.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rota {

/// A list of names, each a string that ends in a zero byte. One thread while it grows, then *immutable*.
class NameList {
 public:
  /// Puts `directory`, a slash unless it is empty, and `name` at the end.
  void add(std::string_view directory, std::string_view name);

  [[nodiscard]] std::size_t size() const noexcept { return starts_.size(); }
  [[nodiscard]] const char* operator[](std::size_t i) const noexcept { return text_.data() + starts_[i]; }

  /// Orders the names by their bytes as unsigned numbers, and gives back memory that was kept for growing.
  void sort();

 private:
  std::string text_;
  std::vector<std::uint64_t> starts_;
};

}  // namespace rota
