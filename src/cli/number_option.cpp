#include "cli/number_option.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>

namespace rota::cli {

std::int64_t parse_number(const std::string& option, const std::string& text, std::int64_t least,
                          std::int64_t most) {
  const std::string_view digits = text.starts_with('-') ? std::string_view(text).substr(1) : text;
  const bool is_number =
      !digits.empty() && std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
  if (!is_number) {
    throw CLI::ValidationError(option,
                               fmt::format("\"{}\" is no whole number; it may be {} or more", text, least));
  }
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_small = text.starts_with('-') && (error != std::errc() || number < 0);
  if (is_small || (error == std::errc() && number < least)) {
    throw CLI::ValidationError(option, fmt::format("{} is below {}", text, least));
  }
  if (error != std::errc() || number > most) {
    throw CLI::ValidationError(option, fmt::format("{} is above {}", text, most));
  }
  return number;
}

}  // namespace rota::cli
