#include "files/path.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "core/failure.hpp"

namespace rota::internal {
namespace {

bool is_there(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

// "s3" of "s3:/x" or "s3:x".
std::string_view before_colon(std::string_view path) noexcept {
  const std::string_view scheme = path.substr(0, path.find_first_of(":/"));
  const bool is_one = !scheme.empty() && path.substr(scheme.size()).starts_with(':') &&
                      std::ranges::all_of(scheme, [](unsigned char c) {
                        return std::isalnum(c) != 0 || c == '+' || c == '-' || c == '.';
                      });
  return is_one ? scheme : std::string_view();
}

}  // namespace

std::string_view scheme_of(std::string_view path) noexcept {
  const std::string_view scheme = before_colon(path);
  return path.substr(scheme.size()).starts_with("://") ? scheme : std::string_view();
}

std::string plain_path(std::string path) {
  const auto refuse = [&](std::string_view what) {
    return failure(ErrorCode::invalid_argument, "find {}: {}", path, what);
  };
  if (path.starts_with('~')) {
    if (is_there(path.substr(0, path.find('/')))) return path;
    const char* home = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe): nothing here sets it
    if (home == nullptr || (path.size() > 1 && path[1] != '/'))
      throw refuse("only \"~/\" is known, the home directory of HOME; name the directory from the root");
    return home + path.substr(1);
  }
  const std::string_view scheme = before_colon(path);
  const std::string_view rest = std::string_view(path).substr(scheme.size());
  if (scheme.empty() || !rest.starts_with(":/") || is_there(path)) return path;
  const bool is_url = rest.starts_with("://");
  if (scheme == "file") {
    constexpr std::string_view kHere = "://localhost/";
    const std::string_view from_root =
        rest.starts_with(kHere) ? rest.substr(kHere.size() - 1) : rest.substr(is_url ? 3 : 1);
    if (from_root.starts_with('/')) return std::string(from_root);
    throw refuse("a file of this machine is file:///path");
  }
  if (is_url || scheme.size() == 1 || is_there(std::string(scheme) + ':')) return path;
  throw refuse(
      fmt::format("it is no URL: one has two slashes, which pathlib makes one of; give a text, \"{}:/{}\"",
                  scheme, rest.substr(1)));
}

std::filesystem::path path_on_disk(const std::filesystem::path& path, std::string_view remedy) {
  const std::string plain = plain_path(path.native());
  if (scheme_of(plain).empty() || is_there(plain)) return plain;
  throw failure(ErrorCode::unsupported, "open {}: {}", plain, remedy);
}

}  // namespace rota::internal
