#include "catalog/list_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

#include "rota/error.hpp"

namespace rota::internal {
namespace {

/// "{000..999}" or "{train,test}", from its brace to the one behind it.
struct NameRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::size_t digits = 0;
  std::vector<std::string> words = {};  ///< in place of numbers
};

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    words.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

// The number whose digits are at `at`, which moves behind them.
std::optional<std::int64_t> take_number(std::string_view text, std::size_t& at) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), number);
  if (error != std::errc() || text[at] == '-') return std::nullopt;
  at = static_cast<std::size_t>(end - text.data());
  return number;
}

std::optional<NameRange> next_range(std::string_view text) {
  for (std::size_t begin = text.find('{'); begin != std::string_view::npos;
       begin = text.find('{', begin + 1)) {
    const std::size_t end = text.find_first_of("{}", begin + 1);
    if (end == std::string_view::npos || text[end] != '}') continue;
    const std::string_view inside = text.substr(begin + 1, end - begin - 1);
    if (inside.find(',') != std::string_view::npos)
      return NameRange{.begin = begin, .end = end + 1, .words = split_words(inside)};
    std::size_t at = begin + 1;
    const auto first = take_number(text, at);
    const std::size_t digits = at - begin - 1;
    if (!first || text.substr(at, 2) != "..") continue;
    at += 2;
    const auto last = take_number(text, at);
    if (last && text.substr(at, 1) == "}") return NameRange{begin, at + 1, *first, *last, digits};
  }
  return std::nullopt;
}

}  // namespace

std::size_t find_range(std::string_view text) {
  const auto range = next_range(text);
  return range ? range->begin : std::string_view::npos;
}

double count_names(std::string_view text) {
  double count = 1;
  while (const auto range = next_range(text)) {
    count *= range->words.empty()
                 ? std::max(static_cast<double>(range->last) - static_cast<double>(range->first) + 1, 0.0)
                 : static_cast<double>(range->words.size());
    text.remove_prefix(range->end);
  }
  return count;
}

void expand_ranges(const std::string& text, const std::function<void(const std::string& name)>& visit) {
  const auto range = next_range(text);
  if (!range) return visit(text);
  const auto expand = [&](std::string_view part) {
    expand_ranges(fmt::format("{}{}{}", text.substr(0, range->begin), part, text.substr(range->end)), visit);
  };
  for (const std::string& word : range->words) expand(word);
  if (!range->words.empty()) return;
  if (range->last < range->first) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("open {}: the range {} goes backward; name the smaller number first", text,
                            text.substr(range->begin, range->end - range->begin)));
  }
  for (std::int64_t number = range->first;; ++number) {
    expand(fmt::format("{:0{}}", number, range->digits));
    if (number == range->last) return;
  }
}

}  // namespace rota::internal
