// Which groups of a file are samples.

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

#include "catalog/list_files.hpp"
#include "core/failure.hpp"
#include "formats/hdf5/file.hpp"

namespace rota::internal {
namespace {

constexpr std::string_view kDigits = "0123456789";

// By name, and those of one name by the number behind it.
std::vector<std::string> in_order(std::vector<std::string> groups) {
  std::ranges::sort(groups, {}, [](const std::string& group) {
    const std::size_t digits = group.find_last_not_of(kDigits) + 1;
    const std::string number = group.substr(std::min(group.find_first_not_of('0', digits), group.size()));
    return std::tuple(group.substr(0, digits), number.size(), number, group.size());
  });
  return groups;
}

// Groups of the same name but for a number behind it that hold datasets of the same names, and all that there
// are: a writer's samples. Else none.
std::vector<std::string> numbered_groups(const std::vector<std::string>& datasets) {
  std::map<std::string, std::set<std::string>> names;  // by group
  std::set<std::string> stems;
  for (const std::string& path : datasets) {
    const std::size_t end = path.rfind('/');
    const std::size_t digits = path.substr(0, end).find_last_not_of(kDigits) + 1;
    if (end == 0 || path.find('/', 1) != end || digits == end || end - digits > 18) return {};
    names[path.substr(0, end)].insert(path.substr(end + 1));
    stems.insert(path.substr(0, digits));
  }
  std::vector<std::string> groups;
  for (const auto& [group, own] : names) {
    if (own != names.begin()->second) return {};
    groups.push_back(group);
  }
  return groups.size() < 2 || stems.size() != 1 ? std::vector<std::string>() : in_order(std::move(groups));
}

// The groups that a glob names; "/" is the whole file.
std::vector<std::string> named_groups(const std::vector<std::string>& datasets, const std::string& pattern) {
  if (pattern == "/") return {""};
  std::set<std::string> found;
  for (const std::string& path : datasets) {
    for (std::size_t end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1)) {
      if (matches_glob(pattern, path.substr(0, end))) found.insert(path.substr(0, end));
    }
  }
  return in_order({found.begin(), found.end()});
}

}  // namespace

std::vector<std::int64_t> shared_end(std::span<const std::int64_t> a, std::span<const std::int64_t> b) {
  const auto differ = std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend()).first;
  return {differ.base(), a.end()};
}

Hdf5Field ask_samples(Hdf5Links& links, const std::vector<std::string>& groups, const std::string& name) {
  const Hdf5Subject& subject = links.from();
  Hdf5Field result;
  for (const std::string& group : groups) {
    try {
      result.samples.push_back(ask_dataset(subject, group + name, true));
    } catch (const Error&) {
      if (is_dataset(links, group + name)) throw;
      throw failure(
          ErrorCode::not_found,
          "open {}: group \"{}\" has no dataset \"{}\", and \"{}\" has; name what all have (the option "
          "datasets), or groups that are alike (the option groups)",
          subject.path, group, name.substr(1), groups[0]);
    }
    const Hdf5Dataset& first = result.samples.front();
    const Hdf5Dataset& last = result.samples.back();
    if (last.type == first.type && last.extent.size() == first.extent.size()) continue;
    throw failure(ErrorCode::invalid_argument,
                  "{} is of another type than \"{}\", or has another number of extents; name the others (the "
                  "option datasets)",
                  subject.what(last.name), first.name);
  }
  result.values = result.samples[0];
  const auto is_alike = [&](const Hdf5Dataset& other) { return other.extent == result.values.extent; };
  const bool is_ragged = !std::ranges::all_of(result.samples, is_alike);
  std::vector<std::int64_t> shape = result.values.row_shape();
  for (const Hdf5Dataset& other : result.samples) shape = shared_end(shape, other.extent);
  result.field = {name.substr(1), result.values.dtype, is_ragged ? shape : result.values.extent, is_ragged};
  if (result.values.is_scalar && !is_ragged) result.field.shape.erase(result.field.shape.begin());
  return result;
}

std::vector<std::string> groups_of(const std::vector<std::string>& datasets, const Hdf5Choice& choice) {
  return choice.groups.empty() ? numbered_groups(datasets) : named_groups(datasets, choice.groups);
}

}  // namespace rota::internal
