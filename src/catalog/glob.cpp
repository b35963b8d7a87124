#include <glob.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>

#include "catalog/walk.hpp"
#include "storage/descriptor.hpp"

namespace rota::internal {
namespace {

struct FreeGlob {
  void operator()(glob_t* found) const noexcept { ::globfree(found); }
};

// glob's callback gets nothing of ours, hence the thread's own variables.
struct Failure {
  std::string path;
  int error = 0;
};
thread_local Failure failure;

int note_failure(const char* path, int error) {
  failure = {path, error};
  return 1;  // stop
}

}  // namespace

std::string fixed_directory(const std::string& pattern) {
  const std::size_t special = pattern.find_first_of("*?[\\");
  const std::size_t slash = pattern.rfind('/', special);
  return slash == std::string::npos ? std::string() : pattern.substr(0, slash + 1);
}

std::vector<std::string> match_glob(const std::string& pattern) {
  glob_t matches{};
  // NOLINTNEXTLINE(concurrency-mt-unsafe): only with a tilde
  const int status = ::glob(pattern.c_str(), GLOB_NOSORT | GLOB_ERR, note_failure, &matches);
  const std::unique_ptr<glob_t, FreeGlob> owner(&matches);
  std::vector<std::string> names;
  if (status == GLOB_NOMATCH) return names;
  if (status == GLOB_NOSPACE) throw std::bad_alloc();
  if (status != 0) {
    throw Error(ErrorCode::io, system_error("list", failure.path, failure.error).what());
  }
  const std::size_t prefix = fixed_directory(pattern).size();
  for (std::size_t i = 0; i < matches.gl_pathc; ++i) names.emplace_back(matches.gl_pathv[i] + prefix);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace rota::internal
