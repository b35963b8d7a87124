#pragma once

// The cases of stalls, how they are run, and what their ranks said.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "launch.hpp"
#include "stalls.hpp"

namespace rota::test {

/// Every point of every operation on every rank, with each writer, at which `hitch` makes sense.
[[nodiscard]] std::vector<Stall> all_stalls(int ranks, std::string_view hitch);

/// Every so many of them, so that about `count` are left; all of them where all is wanted.
[[nodiscard]] std::vector<Stall> some_stalls(int ranks, std::string_view hitch, std::size_t count);

/// What one rank said of one case.
struct Line {
  std::int64_t milliseconds = 0;
  std::string text;
};
using Said = std::map<std::string, Line>;

/// A case that was run: what each rank said of it.
struct Stalled {
  Stall stall;
  std::vector<Said> said;
};
[[nodiscard]] std::string describe(const Stalled& stalled);

/// Runs cases in one launch after the other, in directories of their own under `path`.
[[nodiscard]] std::vector<Stalled> run_together(int ranks, std::vector<Stall> stalls,
                                                const std::filesystem::path& path, Launched& launched);

/// The processes of these reports that are still running, within a second or so.
[[nodiscard]] std::vector<std::int64_t> still_running(const Stalled& stalled);

}  // namespace rota::test
