#include "core/lines.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "rota/error.hpp"

namespace rota::internal {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    lines.push_back(text.substr(0, text.find('\n')));
    text.remove_prefix(std::min(text.size(), lines.back().size() + 1));
  }
  return lines;
}

std::pair<std::string_view, std::string_view> first_difference(std::string_view one, std::string_view other) {
  const auto a = lines_of(one);
  const auto b = lines_of(other);
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const std::string_view mine = i < a.size() ? a[i] : "nothing";
    const std::string_view theirs = i < b.size() ? b[i] : "nothing";
    if (mine != theirs) return {mine, theirs};
  }
  return {};
}

void require_same_lines(std::string_view task, std::string_view mine, std::string_view first) {
  const auto [own, other] = first_difference(mine, first);
  if (own == other) return;
  throw Error(ErrorCode::mismatch,
              fmt::format("{}: rank 0 has {}; this rank has {}; give all ranks the same", task, other, own));
}

}  // namespace rota::internal
