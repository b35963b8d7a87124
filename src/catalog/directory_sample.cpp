#include "catalog/directory_sample.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <regex>
#include <utility>
#include <vector>

#include "storage/descriptor.hpp"

namespace rota::internal {
namespace {

constexpr std::size_t kMostNames = 10'000;

struct CloseDirectory {
  void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};

/// Some names of a directory, in no order; hidden ones are left out.
struct DirectorySample {
  std::string path;
  std::vector<std::string> names;
  bool is_whole = true;  ///< there are no more
};

DirectorySample sample_directory(std::string path) {
  Descriptor fd = open_for_reading(AT_FDCWD, path.empty() ? "." : path.c_str());
  if (!fd.is_open()) throw system_error("list", path, errno);
  const std::unique_ptr<DIR, CloseDirectory> opened(::fdopendir(fd.get()));
  if (opened == nullptr) throw system_error("list", path, errno);
  (void)fd.release();
  DirectorySample sample{.path = path.empty() ? "./" : std::move(path), .names = {}};
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(opened.get());  // NOLINT(concurrency-mt-unsafe): a stream of its own
    if (entry == nullptr && errno != 0) {
      throw Error(ErrorCode::io, system_error("list", sample.path, errno).what());
    }
    if (entry == nullptr) return sample;
    std::string name = &entry->d_name[0];
    if (name.starts_with('.')) continue;
    sample.is_whole = sample.names.size() < kMostNames;
    if (!sample.is_whole) return sample;
    sample.names.push_back(std::move(name));
  }
}

DirectorySample sample_of(const std::string& directory, const NamePattern& pattern,
                          const NameNumbers& numbers) {
  return sample_directory(directory + pattern.above_last().name(numbers));
}

// Matches names of one component; what the first {total} stands for is the first group.
std::regex matcher(const NamePattern& component) {
  const std::regex special(R"([.^$|()\[\]{}*+?\\])");
  std::string text;
  bool has_total = false;
  for (const NamePattern::Part& part : component.parts()) {
    text += std::regex_replace(part.text, special, R"(\$&)");
    if (part.field == NameField::none) continue;
    const bool is_first_total = part.field == NameField::total && !std::exchange(has_total, true);
    text += is_first_total ? "([0-9]+)" : part.field == NameField::total ? R"((?:\1))" : "[0-9]+";
  }
  return std::regex(text);
}

bool is_shorter(const std::string& a, const std::string& b) {
  return std::pair(a.size(), std::string_view(a)) < std::pair(b.size(), std::string_view(b));
}

}  // namespace

std::map<std::int64_t, std::string> totals_in(const std::string& directory, const NamePattern& pattern,
                                              const NameNumbers& numbers) {
  const NamePattern component = pattern.last();
  const std::regex wanted = matcher(component);
  int width = 1;
  for (const NamePattern::Part& part : component.parts()) {
    if (part.field == NameField::total) width = part.width;
  }
  std::map<std::int64_t, std::string> totals;
  for (const std::string& name : sample_of(directory, pattern, numbers).names) {
    std::smatch match;
    if (!std::regex_match(name, match, wanted) || match.length(1) > NamePattern::kMostWidth) continue;
    const std::int64_t total = std::stoll(match.str(1));
    if (total > 0 && match.str(1) == fmt::format("{:0{}}", total, width)) totals.emplace(total, name);
  }
  return totals;
}

std::string describe_names(const std::string& directory, const NamePattern& pattern,
                           const NameNumbers& numbers) {
  DirectorySample sample = sample_of(directory, pattern, numbers);
  if (sample.names.empty()) return sample.path + " is empty";
  std::vector<std::string>& names = sample.names;
  std::sort(names.begin(), names.end(), is_shorter);
  const std::string held = sample.is_whole ? "" : fmt::format(" among the first {} names", kMostNames);
  const std::string example = names.front();
  const std::regex wanted = matcher(pattern.last());
  std::erase_if(names, [&](const std::string& name) { return !std::regex_match(name, wanted); });
  if (names.empty()) return fmt::format("{} holds no such name{}, but {}", sample.path, held, example);
  if (names.size() == 1) return fmt::format("{} holds one such name{}, {}", sample.path, held, names[0]);
  return fmt::format("{} holds {} such names{}, {} to {}", sample.path, names.size(), held, names.front(),
                     names.back());
}

}  // namespace rota::internal
