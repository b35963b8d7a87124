#include "catalog/name_pattern.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <regex>
#include <utility>

#include "rota/error.hpp"
#include "rota/types.hpp"

namespace rota::internal {

NamePattern::NamePattern(std::string text) : text_(std::move(text)) {
  const std::regex token(R"((\{\{|\}\}|[^{}\x00])|)"
                         R"(\{(index|folder|total(?!\+))(?:\+([0-9]{1,18}))?(?::0([1-9]|1[0-8]))?\})");
  std::size_t end = 0;
  for (std::sregex_iterator next(text_.begin(), text_.end(), token, std::regex_constants::match_continuous);
       next != std::sregex_iterator(); ++next) {
    const std::smatch& match = *next;
    const std::size_t begin = std::exchange(end, end + static_cast<std::size_t>(match.length()));
    Part& part = parts_.back();
    if (match[1].matched) {
      part.text.push_back(text_[begin]);
      continue;
    }
    part.field = text_[begin + 1] == 'i'   ? &NameNumbers::index
                 : text_[begin + 1] == 'f' ? &NameNumbers::folder
                                           : &NameNumbers::total;
    part.begin = begin;
    if (match[3].matched) part.first = std::stoll(match.str(3));
    if (match[4].matched) part.width = std::stoi(match.str(4));
    parts_.emplace_back();
  }
  if (end == text_.size()) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("read the pattern {}: byte {} begins no field; write {{index:01}} to "
                          "{{index:018}}, {{index+1}}, {{folder}} or {{total}}, and other braces twice",
                          text_.c_str(), end));
}

void NamePattern::require_names() const {
  const auto count = std::ranges::count(parts_, &NameNumbers::index, &Part::field);
  const std::string wrong =
      count != 1 ? fmt::format("it has {} fields {{index}}; it needs one, as in img_{{index:08}}.npz", count)
      : text_.ends_with('/') ? "it names directories; name files"
      : has(&NameNumbers::folder) && through(&NameNumbers::folder).has(&NameNumbers::index)
          ? "{folder} is to name a directory above that of {index}"
          : "";
  if (!wrong.empty())
    throw Error(ErrorCode::invalid_argument, fmt::format("read the pattern {}: {}", text_, wrong));
}

std::size_t NamePattern::begin_of(NameField field) const noexcept {
  const auto part = std::ranges::find(parts_, field, &Part::field);
  return part == parts_.end() ? std::string::npos : part->begin;
}

std::string NamePattern::name(const NameNumbers& numbers) const {
  std::string name;
  for (const Part& part : parts_) {
    name += part.text;
    if (part.field == nullptr) continue;
    const std::int64_t number = part.first + numbers.*part.field;
    if (number < 0) return {};
    fmt::format_to(std::back_inserter(name), "{:0{}}", number, part.width);
  }
  return name;
}

std::int64_t NamePattern::total_in(const std::string& name) const {
  NameNumbers numbers;
  const char* const end = name.data() + name.size();
  const char* at = name.data();
  for (const Part& part : parts_) {
    at += std::min(std::ssize(part.text), end - at);
    if (part.field == nullptr) continue;
    std::int64_t& number = numbers.*part.field;
    at = std::from_chars(at, end, number).ptr;
    number = std::max<std::int64_t>(number, 0) - part.first;
  }
  return this->name(numbers) == name ? numbers.total : 0;
}

std::int64_t NameSeries::folder_of(std::int64_t i) const noexcept {
  if (layout == FolderLayout::round_robin) return (i % folders + folders) % folders;
  return share(folders, std::clamp<std::int64_t>(i, 0, files - 1), files);
}

std::int64_t NameSeries::next_in(std::int64_t folder) const noexcept {
  if (layout == FolderLayout::restart) return indices();
  if (layout == FolderLayout::round_robin) return files + folder_of(folder - files);
  return files - share(files, folders - 1 - folder, folders);  // ceil((folder + 1) files / folders)
}

Fingerprint NameSeries::fingerprint() const {
  FingerprintBuilder builder;
  builder.add("names of a pattern").add(pattern.text());
  return builder.add(files).add(folders).add(static_cast<std::int64_t>(layout)).finish();
}

}  // namespace rota::internal
