// `rota`: looks at datasets, and at what runs leave behind, their traces and checkpoints.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "cli/verbs.hpp"

namespace {

namespace cli = rota::cli;

int run(int argc, char** argv) {
  CLI::App app(
      "rota: looks at datasets, and at what training runs leave behind, their traces and checkpoints.",
      "rota");
  app.set_version_flag("--version", std::string("rota ") + ROTA_VERSION);
  app.require_subcommand(1);
  std::vector<cli::Verb> verbs;
  for (const auto add :
       {cli::add_ls, cli::add_head, cli::add_index, cli::add_audit, cli::add_inspect, cli::add_verify}) {
    verbs.push_back(add(app));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : cli::kUsage;
  }
  for (const cli::Verb& verb : verbs) {
    if (verb.command->parsed()) return verb.run();
  }
  return cli::kUsage;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return cli::kProblems;
  }
}
