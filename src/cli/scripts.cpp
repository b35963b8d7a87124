// `rota report`, which is a program of Python.

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

using Words = std::vector<std::string>;

std::filesystem::path this_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

// The script that makes pages is beside this program where it was installed, or else in its source tree. It
// calls this program for what an audit finds.
Words page_maker() {
  const auto installed = this_program().parent_path().parent_path() / ROTA_DATA_DIR "/rota/report.py";
  return {std::filesystem::exists(installed) ? installed.native() : ROTA_REPORT, this_program().native()};
}

// Of the package, wherever that is; where it was built with this program, beside that.
constexpr const char* kModule = R"(import signal, sys
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # while it imports, too
sys.path = [path for path in sys.path if path] + [sys.argv.pop(1)]  # without the user's own files
try:
    from rota import _report, {0} as it
except ModuleNotFoundError as error:
    sys.exit(f"error: {{sys.executable}} does not find the package {{error.name}}: install rota for it "
             "(pip install), or name another Python by ROTA_PYTHON")
sys.exit(_report.run(it.main, sys.argv[1:])))";

Words package(const std::string& module) {
  return {"-c", fmt::format(kModule, module), this_program().parent_path().parent_path() / "python"};
}

// Goes on as Python.
void become(Words words, const Words& more) {
  const char* const python = std::getenv("ROTA_PYTHON");  // NOLINT(concurrency-mt-unsafe): read only
  words.insert(words.begin(), python != nullptr ? python : "python3");
  words.insert(words.end(), more.begin(), more.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  flush_output();
  ::execvp(arguments.front(), arguments.data());
  throw internal::failure(ErrorCode::io, "run python3: {}", std::generic_category().message(errno));
}

template <typename Script>
void add(CLI::App& app, const char* verb, const char* what, Script script) {
  CLI::App& command = *app.add_subcommand(verb, what);
  command.set_help_flag();  // it is Python that knows its options
  command.prefix_command();
  command.callback([&command, script] { become(script(), command.remaining()); });
}

}  // namespace

void become_module(const std::string& module, const Words& arguments) { become(package(module), arguments); }

void add_scripts(CLI::App& app, int& /*code*/) {
  add(app, "report", "Makes a page of traces. By Python.", page_maker);
}

}  // namespace rota::cli
