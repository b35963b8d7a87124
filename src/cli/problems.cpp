#include "cli/problems.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rota::trace {

std::string_view to_string(ProblemKind kind) noexcept {
  switch (kind) {
    case ProblemKind::format:
      return "format";
    case ProblemKind::files:
      return "files";
    case ProblemKind::start:
      return "start";
    case ProblemKind::lockstep:
      return "lockstep";
    case ProblemKind::slices:
      return "slices";
    case ProblemKind::owner:
      return "owner";
    case ProblemKind::size:
      return "size";
    case ProblemKind::gap:
      return "gap";
    case ProblemKind::repeated:
      return "repeated";
    case ProblemKind::missing:
      return "missing";
    case ProblemKind::range:
      return "range";
    case ProblemKind::padding:
      return "padding";
    case ProblemKind::content:
      return "content";
    case ProblemKind::order:
      return "order";
    case ProblemKind::unfinished:
      return "unfinished";
    case ProblemKind::difference:
      return "difference";
  }
  return "?";
}

std::string to_string(const Problem& problem) {
  std::string where;
  if (problem.phase >= 0) where += fmt::format(", phase {}", problem.phase);
  if (problem.rank >= 0) where += fmt::format(", rank {}", problem.rank);
  if (!problem.where.empty()) where += ", " + problem.where;
  if (!where.empty()) where = where.substr(2) + ": ";
  const auto more = problem.count > 1 ? fmt::format(" (and {} more like it)", problem.count - 1) : "";
  return fmt::format("{}: {}{}{}", to_string(problem.kind), where, problem.text, more);
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

}  // namespace rota::trace
