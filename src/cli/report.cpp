// `rota report`: has Python make a page of traces.

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "core/failure.hpp"

namespace rota::cli {
namespace {

// Goes on as the script, which is beside this program where it was installed, or else in its source tree. The
// script calls this program for what an audit finds.
void report(std::vector<std::string> words) {
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  const auto installed = program.parent_path().parent_path() / ROTA_DATA_DIR "/rota/report.py";
  const std::string script = std::filesystem::exists(installed) ? installed.native() : ROTA_REPORT;
  words.insert(words.begin(), {"python3", script, program.native()});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  flush_output();
  ::execvp(arguments.front(), arguments.data());
  throw internal::failure(ErrorCode::io, "make a page of traces: run python3: {}",
                          std::generic_category().message(errno));
}

}  // namespace

void add_report(CLI::App& app, int& /*code*/) {
  CLI::App& command = *app.add_subcommand("report", "Makes one page of traces, by Python.");
  command.set_help_flag();  // it is the script that knows words
  command.prefix_command();
  command.callback([&command] { report(command.remaining()); });
}

}  // namespace rota::cli
