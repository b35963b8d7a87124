#pragma once

// A number on the command line, for examples that take no more than that.

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <string_view>
#include <system_error>

#include "rota/error.hpp"

/// `text`, the argument that says `what`, as a whole number from 0 on. Throws rota::Error for anything else.
inline std::int64_t whole_number(std::string_view what, std::string_view text) {
  std::int64_t number = -1;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && stop == end && number >= 0) return number;
  throw rota::Error(
      rota::ErrorCode::invalid_argument,
      fmt::format("read the arguments: {} is \"{}\"; it must be a whole number, 0 or more", what, text));
}
