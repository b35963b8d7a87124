#include "catalog/name_pattern.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "rota/error.hpp"

namespace rota::internal {
namespace {

constexpr std::array<std::pair<NameField, std::string_view>, 3> kFieldNames = {
    {{NameField::index, "index"}, {NameField::folder, "folder"}, {NameField::total, "total"}}};

[[noreturn]] void fail(std::string_view pattern, std::string_view what) {
  throw Error(ErrorCode::invalid_argument, fmt::format("read the pattern {}: {}", pattern, what));
}

// Of what is between braces.
NamePattern::Part parse_field(std::string_view written, std::string_view field) {
  const std::size_t colon = field.find(':');
  const std::string_view name = field.substr(0, colon);
  const auto* known = std::find_if(kFieldNames.begin(), kFieldNames.end(),
                                   [&](const auto& candidate) { return candidate.second == name; });
  if (known == kFieldNames.end()) {
    fail(written, fmt::format("there is no field {{{}}}; use {{index}}, {{folder}} or {{total}}, and two "
                              "braces for one that is part of a name",
                              field));
  }
  NamePattern::Part part{.text = {}, .field = known->first};
  if (colon == std::string_view::npos) return part;
  const std::string_view width = field.substr(colon + 1);
  const bool is_width = width.size() >= 2 && width.size() <= 3 && width[0] == '0' && width[1] != '0' &&
                        std::all_of(width.begin(), width.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (is_width) part.width = std::stoi(std::string(width));
  if (is_width && part.width <= NamePattern::kMostWidth) return part;
  fail(written, fmt::format("the width of {{{}}} is to be 01 to 0{}, as in {{{}:08}}", field,
                            NamePattern::kMostWidth, name));
}

}  // namespace

NamePattern NamePattern::parse(std::string_view written) {
  NamePattern pattern;
  std::string text;
  if (const std::size_t zero = written.find('\0'); zero != std::string_view::npos) {
    fail(written.substr(0, zero), "it has a zero byte behind that");
  }
  for (std::size_t i = 0; i < written.size(); ++i) {
    const char c = written[i];
    if (c != '{' && c != '}') {
      text.push_back(c);
    } else if (i + 1 < written.size() && written[i + 1] == c) {
      text.push_back(c);
      ++i;
    } else {
      const std::size_t end = written.find('}', i);
      if (c == '}' || end == std::string_view::npos) {
        fail(written,
             fmt::format("the {} at byte {} is alone; use two for one that is part of a name", c, i));
      }
      Part part = parse_field(written, written.substr(i + 1, end - i - 1));
      part.text = std::exchange(text, {});
      pattern.parts_.push_back(std::move(part));
      i = end;
    }
  }
  pattern.parts_.push_back({.text = std::move(text)});
  return pattern;
}

void NamePattern::require_names() const {
  if (count(NameField::index) != 1) {
    fail(text(), fmt::format("it has {} fields {{index}}; it must have one, as in img_{{index:08}}.npz",
                             count(NameField::index)));
  }
  if (parts_.back().text.ends_with('/')) fail(text(), "it names directories; name files");
  if (has(NameField::folder) && through(NameField::folder).has(NameField::index))
    fail(text(), "{folder} is to name a directory above that of {index}");
}

std::size_t NamePattern::count(NameField field) const noexcept {
  return static_cast<std::size_t>(
      std::count_if(parts_.begin(), parts_.end(), [&](const Part& part) { return part.field == field; }));
}

std::string NamePattern::text() const {
  std::string text;
  for (const Part& part : parts_) {
    for (const char c : part.text) text.append(c == '{' || c == '}' ? 2 : 1, c);
    for (const auto& [field, name] : kFieldNames) {
      if (part.field != field) continue;
      text += part.width > 1 ? fmt::format("{{{}:0{}}}", name, part.width) : fmt::format("{{{}}}", name);
    }
  }
  return text;
}

// What goes before byte `end` of the text of this part.
NamePattern NamePattern::up_to(std::size_t part, std::size_t end) const {
  std::vector<Part> parts(parts_.begin(), parts_.begin() + static_cast<std::ptrdiff_t>(part));
  parts.push_back({.text = parts_[part].text.substr(0, end)});
  return NamePattern(std::move(parts));
}

std::string NamePattern::directory() const {
  const std::string& text = parts_.front().text;
  return text.substr(0, text.rfind('/') + 1);
}

NamePattern NamePattern::below_directory() const {
  NamePattern below = *this;
  below.parts_.front().text.erase(0, directory().size());
  return below;
}

NamePattern NamePattern::through(NameField field) const {
  bool is_found = false;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    const std::size_t slash = is_found ? parts_[p].text.find('/') : std::string::npos;
    if (slash != std::string::npos) return up_to(p, slash);
    is_found = is_found || parts_[p].field == field;
  }
  return *this;
}

NamePattern NamePattern::parent() const {
  for (std::size_t p = parts_.size(); p-- > 0;) {
    const std::size_t slash = parts_[p].text.rfind('/');
    if (slash != std::string::npos) return up_to(p, slash);
  }
  return {};
}

std::string NamePattern::name(const NameNumbers& numbers) const {
  std::string name;
  for (const Part& part : parts_) {
    name += part.text;
    if (part.field == NameField::none) continue;
    const std::int64_t number = part.field == NameField::index    ? numbers.index
                                : part.field == NameField::folder ? numbers.folder
                                                                  : numbers.total;
    fmt::format_to(std::back_inserter(name), "{:0{}}", number, part.width);
  }
  return name;
}

std::int64_t scaled(std::int64_t a, std::int64_t b, std::int64_t c) noexcept {
  __extension__ using Wide = __int128;
  return static_cast<std::int64_t>(static_cast<Wide>(a) * b / c);
}

NameNumbers NameSeries::numbers(std::int64_t i) const noexcept {
  NameNumbers numbers{.index = first_index + i, .folder = first_folder, .total = files};
  switch (layout) {
    case FolderLayout::round_robin:
      numbers.folder += i % folders;
      break;
    case FolderLayout::blocks:
      numbers.folder += scaled(i, folders, files);
      break;
    case FolderLayout::restart:
      numbers.folder += i / (files / folders);
      numbers.index = first_index + i % (files / folders);
      break;
  }
  return numbers;
}

Fingerprint NameSeries::fingerprint() const {
  return FingerprintBuilder()
      .add("names of a pattern")
      .add(pattern.text())
      .add(files)
      .add(first_index)
      .add(folders)
      .add(first_folder)
      .add(static_cast<std::int64_t>(layout))
      .finish();
}

}  // namespace rota::internal
