// `rota`: looks at datasets, and at what runs leave behind, their traces and checkpoints.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "cli/output.hpp"
#include "cli/verbs.hpp"

namespace {

namespace cli = rota::cli;

// The first word where it is neither verb nor option. The parser would only say that a verb is missing.
std::string unknown_word(const CLI::App& app) {
  const auto words = app.remaining();
  if (words.empty() || !app.get_subcommands().empty()) return "";
  if (words.front().starts_with('-')) {
    return fmt::format("{}: there is no such option\nRun with --help for more information.\n", words.front());
  }
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands({})) names.push_back(verb->get_name());
  return fmt::format("{}: there is no such verb; there are {}\nRun with --help for more information.\n",
                     words.front(), fmt::join(names, ", "));
}

int tell(const CLI::App& app, const CLI::ParseError& error) {
  const std::string unknown = error.get_exit_code() == 0 ? "" : unknown_word(app);
  std::ostringstream out;
  std::ostringstream err;
  const int code = unknown.empty() ? app.exit(error, out, err) : cli::kUsage;
  fmt::print("{}", out.str());
  std::fputs((unknown + err.str()).c_str(), stderr);
  return code == 0 ? 0 : cli::kUsage;
}

int run(int argc, char** argv) {
  CLI::App app(
      "rota: looks at datasets, and at what training runs leave behind, their traces and checkpoints.",
      "rota");
  app.set_version_flag("--version", std::string("rota ") + ROTA_VERSION);
  app.require_subcommand(1);
  std::vector<cli::Verb> verbs;
  for (const auto add : {cli::add_ls, cli::add_head, cli::add_index, cli::add_speed, cli::add_pack,
                         cli::add_audit, cli::add_inspect, cli::add_verify}) {
    verbs.push_back(add(app));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return tell(app, error);
  }
  for (const cli::Verb& verb : verbs) {
    if (verb.command->parsed()) return verb.run();
  }
  return cli::kUsage;
}

}  // namespace

int main(int argc, char** argv) {
  return cli::run_with_output([&] { return run(argc, argv); });
}
