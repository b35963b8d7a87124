#include "cli/number_option.hpp"

#include <fmt/format.h>

#include <charconv>
#include <system_error>

namespace rota::cli {

std::int64_t parse_number(const std::string& option, const std::string& text, std::int64_t least,
                          std::int64_t most) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc::invalid_argument || at != end) {
    throw CLI::ValidationError(option,
                               fmt::format("\"{}\" is no whole number; it may be {} or more", text, least));
  }
  const bool is_outside = error == std::errc::result_out_of_range;  // of all 64 bits
  if (is_outside ? text.starts_with('-') : number < least)
    throw CLI::ValidationError(option, fmt::format("{} is below {}", text, least));
  if (is_outside || number > most)
    throw CLI::ValidationError(option, fmt::format("{} is above {}", text, most));
  return number;
}

}  // namespace rota::cli
