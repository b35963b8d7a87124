#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "core/failure.hpp"
#include "formats/formats.hpp"
#include "formats/records.hpp"

namespace rota::internal {

bool are_extensions(std::span<const TarField> fields) {
  return std::ranges::all_of(
      fields, [](const TarField& field) { return field.extensions == std::vector{field.name}; });
}

std::string fields_text(const std::vector<TarField>& fields) {
  std::string text = fmt::format("{}", names_of(fields));
  for (auto [name, extensions] : are_extensions(fields) ? std::vector<TarField>() : fields) {
    std::ranges::sort(extensions);
    text += fmt::format(" {}", extensions);
  }
  return text;
}

}  // namespace rota::internal

namespace rota {

void TarOptions::validate() const {
  std::vector<std::string> all;
  for (const TarField& field : fields) std::ranges::copy(field.extensions, std::back_inserter(all));
  const auto refuse = [](const std::string& name, std::string_view why) {
    throw internal::failure(ErrorCode::invalid_argument, "open files: the option fields: \"{}\" {}", name,
                            why);
  };
  internal::require_distinct("fields", internal::names_of(fields));
  internal::require_distinct("fields", all);
  for (const auto& [name, extensions] : fields) {
    if (extensions.empty()) refuse(name, "has no extensions; name at least one");
    for (const std::string& extension : extensions) {
      if (std::ranges::any_of(extension, [](char c) { return c >= 'A' && c <= 'Z'; }))
        refuse(extension, "has capitals, and extensions are taken in lower case; name it so");
    }
    if (name == internal::kKeyField) refuse(name, "is the field of keys; set the option keys for that");
    if (std::ranges::find(extensions, name) == extensions.end() && std::ranges::find(all, name) != all.end())
      refuse(name,
             "is a field without the extension of that name, which another field has; call it otherwise");
  }
}

}  // namespace rota
