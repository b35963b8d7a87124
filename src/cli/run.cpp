// `rota`: looks at datasets, and at what runs leave behind, their traces and checkpoints.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <regex>
#include <sstream>

#include "cli/output.hpp"
#include "cli/progress_bar.hpp"
#include "cli/verbs.hpp"

namespace rota::cli {
namespace {

// In one line; of words that are too many, as a glob without quotes has thousands, the first few.
std::string failure_text(const CLI::App* app, const CLI::Error& error) {
  const auto words = app->remaining(true);
  std::string text = error.what();
  if (!words.empty() && app->get_subcommands().empty()) {
    std::vector<std::string> verbs;
    for (const CLI::App* verb : app->get_subcommands({})) verbs.push_back(verb->get_name());
    const bool is_option = words.front().starts_with('-');
    text = fmt::format("{}: there is no such {}", words.front(), is_option ? "option" : "verb; there are ");
    if (!is_option) text += fmt::format("{}", fmt::join(verbs, ", "));
  } else if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    const auto few = std::min<std::ptrdiff_t>(std::ssize(words), 3);
    text = fmt::format("not expected: {}", fmt::join(words.begin(), words.begin() + few, ", "));
    if (const auto rest = std::ssize(words) - few; rest > 0)
      text += fmt::format(" and {} more; put a glob in quotes", grouped(rest));
  }
  return shown(text) + "\nRun with --help for more information.\n";
}

// As wide as the terminal: behind a line feed CLI11 goes on below where the text began.
void wrap_help(CLI::App& app) {
  constexpr std::size_t kWidest = 120;
  const std::size_t columns = std::min(columns_of(stdout), kWidest) - app.get_formatter()->get_column_width();
  const std::regex line(fmt::format("(?=.{{{}}})(.{{1,{}}}) ", columns + 1, columns));
  const auto wrap = [&](auto& what) {
    what.description(std::regex_replace(what.get_description(), line, "$1\n"));
  };
  wrap(app);
  for (CLI::Option* option : app.get_options()) wrap(*option);
  for (CLI::App* verb : app.get_subcommands({})) wrap_help(*verb);
}

int run_verb(int argc, char** argv) {
  CLI::App app(
      "rota: looks at datasets, and at what training runs leave behind, their traces and checkpoints.",
      "rota");
  app.set_version_flag("--version", std::string("rota ") + ROTA_VERSION);
  app.require_subcommand(1);
  app.failure_message(failure_text);
  app.get_formatter()->column_width(std::min<std::size_t>(30, columns_of(stdout) / 3));
  int code = kUsage;
  for (const auto add : {add_ls, add_head, add_index, add_speed, add_shard, add_audit, add_plan, add_scripts,
                         add_inspect, add_verify, add_when, add_diff}) {
    add(app, code);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) wrap_help(app);
    std::ostringstream out;
    if (app.exit(error, out, std::cerr) == 0) code = 0;
    fmt::print("{}", out.str());
  }
  return code;
}

}  // namespace

int run(int argc, char** argv) {
  return run_with_output([&] { return run_verb(argc, argv); });
}

}  // namespace rota::cli
