#include "catalog/directory_sample.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "catalog/place.hpp"
#include "storage/descriptor.hpp"
#include "values/caught.hpp"

namespace rota::internal {
namespace {

constexpr std::size_t kMostNames = 10'000;

/// Some names of a directory, in no order; hidden ones are left out.
struct DirectorySample {
  std::string path;
  std::vector<std::string> names;
  bool is_whole = true;  ///< there are no more
};

// The same of a storage, of names that begin with `path` + `beginning`.
DirectorySample sample_of_stored(const StoredPath& directory, std::string_view beginning) {
  struct Enough {};
  DirectorySample sample{.path = directory.path, .names = {}};
  try {
    directory.storage->list(directory.name + std::string(beginning), [&](const StoredFile& file) {
      std::string name = file.name.substr(directory.name.size());
      name.resize(std::min(name.find('/'), name.size()));
      if (name.empty() || name.starts_with('.') || (!sample.names.empty() && name == sample.names.back()))
        return;
      sample.is_whole = sample.names.size() < kMostNames;
      if (!sample.is_whole) throw Enough();
      sample.names.push_back(std::move(name));
    });
  } catch (const Enough&) {
    return sample;
  } catch (...) {
    throw caught().as_error_of(directory.path, fmt::format("list {}", directory.path));
  }
  return sample;
}

// What names of the last component begin with, up to {total}.
std::string beginning_of(const NamePattern& pattern, const NameNumbers& numbers) {
  std::vector<NamePattern::Part> parts;
  for (const NamePattern::Part& part : pattern.parts()) {
    parts.push_back(part);
    if (part.field != NameField::total) continue;
    parts.back().field = NameField::none;
    break;
  }
  const std::string name = NamePattern(std::move(parts)).name(numbers);
  return name.substr(name.rfind('/') + 1);
}

// Of the directory that file has which `pattern` names with these numbers; in a storage, of names that begin
// with `beginning`.
DirectorySample sample_of(const std::string& directory, const NamePattern& pattern,
                          const NameNumbers& numbers, const Storages& storages,
                          std::string_view beginning = {}) {
  const std::string file = directory + pattern.name(numbers);
  DirectorySample sample{.path = file.substr(0, file.rfind('/') + 1), .names = {}};
  if (const StoredPath stored = parse_stored(sample.path, storages); stored.storage != nullptr)
    return sample_of_stored(stored, beginning);
  if (sample.path.empty()) sample.path = "./";
  std::error_code error;
  std::filesystem::directory_iterator entry(sample.path, error);
  if (error) throw system_error("list", sample.path, error.value());
  for (; entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::string name = entry->path().filename().native();
    if (name.starts_with('.')) continue;
    sample.is_whole = sample.names.size() < kMostNames;
    if (!sample.is_whole) return sample;
    sample.names.push_back(std::move(name));
  }
  if (error) throw Error(ErrorCode::io, system_error("list", sample.path, error.value()).what());
  return sample;
}

// Matches the last components of names; what the first {total} there stands for is the first group.
std::regex matcher(const NamePattern& pattern) {
  const std::regex special(R"([.^$|()\[\]{}*+?\\])");
  std::string text;
  bool has_total = false;
  for (const NamePattern::Part& part : pattern.parts()) {
    const std::size_t slash = part.text.rfind('/');
    if (slash != std::string::npos) {
      text.clear();
      has_total = false;
    }
    text += std::regex_replace(part.text.substr(slash + 1), special, R"(\$&)");  // npos + 1 is 0
    if (part.field == NameField::none) continue;
    const bool is_first_total = part.field == NameField::total && !std::exchange(has_total, true);
    text += is_first_total ? "([0-9]+)" : part.field == NameField::total ? R"((?:\1))" : "[0-9]+";
  }
  return std::regex(text);
}

}  // namespace

std::map<std::int64_t, std::string> totals_in(const NamePattern& pattern, const NameNumbers& numbers,
                                              const Storages& storages) {
  const std::regex wanted = matcher(pattern);
  int width = 1;
  for (const NamePattern::Part& part : pattern.parts()) {
    if (part.field == NameField::total) width = part.width;
  }
  std::map<std::int64_t, std::string> totals;
  for (const std::string& name :
       sample_of("", pattern, numbers, storages, beginning_of(pattern, numbers)).names) {
    std::smatch match;
    if (!std::regex_match(name, match, wanted) || match.length(1) > NamePattern::kMostWidth) continue;
    const std::int64_t total = std::stoll(match.str(1));
    if (total > 0 && match.str(1) == fmt::format("{:0{}}", total, width)) totals.emplace(total, name);
  }
  return totals;
}

std::string describe_names(const std::string& directory, const NamePattern& pattern,
                           const NameNumbers& numbers, const Storages& storages) {
  DirectorySample sample = sample_of(directory, pattern, numbers, storages);
  if (sample.names.empty()) return sample.path + " is empty";
  std::vector<std::string>& names = sample.names;
  std::ranges::sort(names, {}, [](const std::string& name) {  // shorter ones first
    return std::pair(name.size(), std::string_view(name));
  });
  const std::string held = sample.is_whole ? "" : fmt::format(" among the first {} names", kMostNames);
  const std::string example = names.front();
  const std::regex wanted = matcher(pattern);
  std::erase_if(names, [&](const std::string& name) { return !std::regex_match(name, wanted); });
  if (names.empty()) return fmt::format("{} holds no such name{}, but {}", sample.path, held, example);
  if (names.size() == 1) return fmt::format("{} holds one such name{}, {}", sample.path, held, names[0]);
  return fmt::format("{} holds {} such names{}, {} to {}", sample.path, names.size(), held, names.front(),
                     names.back());
}

}  // namespace rota::internal
