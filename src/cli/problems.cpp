#include "cli/problems.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace rota::cli {

std::string to_string(const Problem& problem) {
  constexpr std::array<std::string_view, 16> kKinds{
      "format",   "files",   "start", "lockstep", "slices",  "owner", "size",       "gap",
      "repeated", "missing", "range", "padding",  "content", "order", "unfinished", "difference"};
  static_assert(static_cast<std::size_t>(ProblemKind::difference) + 1 == kKinds.size());
  std::string where;
  if (problem.phase >= 0) where += fmt::format(", phase {}", problem.phase);
  if (problem.rank >= 0) where += fmt::format(", rank {}", problem.rank);
  if (!problem.where.empty()) where += ", " + problem.where;
  if (!where.empty()) where = where.substr(2) + ": ";
  const auto more = problem.count > 1 ? fmt::format(" (and {} more like it)", problem.count - 1) : "";
  return fmt::format("{}: {}{}{}", kKinds[static_cast<std::size_t>(problem.kind)], where, problem.text, more);
}

void Problems::add(Problem problem) {
  const auto same = std::ranges::find_if(problems_, [&](const Problem& other) {
    return other.kind == problem.kind && other.phase == problem.phase && other.rank == problem.rank;
  });
  if (same == problems_.end()) {
    problems_.push_back(std::move(problem));
  } else {
    same->count += problem.count;
  }
}

}  // namespace rota::cli
