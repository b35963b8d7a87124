#include "catalog/list_files.hpp"

#include <fnmatch.h>
#include <glob.h>

#include <algorithm>
#include <memory>
#include <new>

#include "core/failure.hpp"
#include "core/owned.hpp"
#include "files/descriptor.hpp"

namespace rota::internal {
namespace {

constexpr const char* kSpecial = "*?[\\";

// glob's callback gets nothing of ours, hence the thread's own variables.
struct Failure {
  std::string path;
  int error = 0;
};
thread_local Failure last_failure;

int note_failure(const char* path, int error) {
  last_failure = {path, error};
  return 1;  // stop
}

}  // namespace

bool is_glob(std::string_view path) noexcept { return path.find_first_of("*?[") != std::string_view::npos; }

std::string fixed_directory(const std::string& pattern) {
  const std::size_t special = pattern.find_first_of(kSpecial);
  const std::size_t slash = pattern.rfind('/', special);
  return slash == std::string::npos ? std::string() : pattern.substr(0, slash + 1);
}

bool matches_glob(std::string_view pattern, std::string_view name) {
  const auto part_of = [](std::string_view text) { return text.substr(0, text.find('/')); };
  const std::string_view part = part_of(pattern);
  const std::string_view first = part_of(name);
  const bool is_last = part.size() == pattern.size();
  const bool is_last_of_name = first.size() == name.size();
  if (part != kAnyDepth) {
    if (is_last != is_last_of_name) return false;
    if (::fnmatch(std::string(part).c_str(), std::string(first).c_str(), FNM_PERIOD) != 0) return false;
    return is_last || matches_glob(pattern.substr(part.size() + 1), name.substr(first.size() + 1));
  }
  if (!is_last && matches_glob(pattern.substr(part.size() + 1), name)) return true;
  if (first.empty() || first.starts_with('.')) return false;
  return is_last_of_name ? is_last : matches_glob(pattern, name.substr(first.size() + 1));
}

std::string glob_of(const std::string& path, const std::function<bool(const std::string&)>& is_there) {
  std::string pattern;
  for (std::size_t begin = 0, end = 0; end < path.size(); begin = end + 1) {
    end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    if (part != kAnyDepth && part.find(kAnyDepth) != std::string::npos) {
      throw failure(
          ErrorCode::invalid_argument,
          "open {}: \"**\" is any number of directories, and a part of its own, as in data/**/*.tar; "
          "within one write \"*\"",
          path);
    }
    const bool is_name = end < path.size() && part.find_first_of(kSpecial) != std::string::npos &&
                         is_there(path.substr(0, end));
    for (const char c : part) {
      if (is_name && std::string_view(kSpecial).find(c) != std::string_view::npos) pattern += '\\';
      pattern += c;
    }
    if (end < path.size()) pattern += '/';
  }
  return pattern;
}

std::vector<std::string> match_glob(const std::string& pattern) {
  glob_t matches{};
  // NOLINTNEXTLINE(concurrency-mt-unsafe): only with a tilde
  const int status = ::glob(pattern.c_str(), GLOB_NOSORT | GLOB_ERR, note_failure, &matches);
  const std::unique_ptr<glob_t, FreeBy<::globfree>> owner(&matches);
  std::vector<std::string> names;
  if (status == GLOB_NOMATCH) return names;
  if (status == GLOB_NOSPACE) throw std::bad_alloc();
  if (status != 0) {
    throw Error(ErrorCode::io, system_error("list", last_failure.path, last_failure.error).what());
  }
  const std::size_t prefix = fixed_directory(pattern).size();
  for (std::size_t i = 0; i < matches.gl_pathc; ++i) names.emplace_back(matches.gl_pathv[i] + prefix);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace rota::internal
