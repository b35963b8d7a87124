#pragma once

// Options that are whole numbers. What may not be is said in words: "--limit: -1 is below 0".

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace rota::cli {

/// The decimal number that `text` is. Throws CLI::ValidationError, which names `option`, for anything else
/// and outside [least, most].
std::int64_t parse_number(const std::string& option, const std::string& text, std::int64_t least,
                          std::int64_t most);

/// Adds an option that is a number from `least` to `most`. `value` has the default, if there is one, and must
/// live as long as `command`.
template <typename Number>
CLI::Option& add_number(CLI::App& command, const std::string& name, Number& value, std::int64_t least,
                        const std::string& help,
                        std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
  CLI::Option& option = *command.add_option_function<std::string>(
      name,
      [&value, name, least, most](const std::string& text) {
        value = static_cast<Number>(parse_number(name, text, least, most));
      },
      help);
  option.type_name("INT");
  if constexpr (requires { std::to_string(value); }) option.default_str(std::to_string(value));
  return option;
}

}  // namespace rota::cli
