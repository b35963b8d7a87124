#include "formats/process.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace rota::internal {
namespace {

// Of a process that runs; zero where there is none, or what is left of one; nothing where that cannot be
// found out. See proc(5), /proc/pid/stat.
std::optional<std::uint64_t> start_of(std::int64_t id) {
  errno = 0;
  std::ifstream file(fmt::format("/proc/{}/stat", id));
  if (!file && errno != ENOENT) return std::nullopt;
  std::string text;
  std::getline(file, text, '\0');                // which throws nothing where the process ends meanwhile
  const std::size_t name_end = text.rfind(')');  // a name may hold anything
  if (name_end == std::string::npos) return 0;
  std::istringstream rest(text.substr(name_end + 1));
  std::string state;
  rest >> state;
  if (state == "Z" || state == "X") return 0;
  std::string field;
  for (int i = 0; i < 18; ++i) rest >> field;
  std::uint64_t started = 0;
  rest >> started;
  return started;
}

}  // namespace

Process Process::self() {
  const std::int64_t id = ::getpid();
  return {.id = id, .started = start_of(id).value_or(0)};
}

bool Process::is_alive() const { return start_of(id).value_or(started) == started; }

}  // namespace rota::internal
