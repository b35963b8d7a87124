#include "rota/open.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <type_traits>

#include "catalog/file_names.hpp"
#include "core/failure.hpp"
#include "formats/formats.hpp"
#include "ranks/collectives.hpp"

namespace rota::internal {
namespace {

// By its name or by its options; null: none is called so.
const FormatEntry* find_entry(const Format& format) {
  const auto* const name = std::get_if<std::string>(&format);
  const auto* const found = std::ranges::find_if(kFormats, [&](const FormatEntry* one) {
    return name != nullptr ? one->name == *name : one->defaults().index() == format.index();
  });
  return found == kFormats.end() ? nullptr : *found;
}

// The same text of the same format and options, and only of these.
std::string described(Format format) {
  if (const auto* name = std::get_if<std::string>(&format)) return fmt::format("the format \"{}\"", *name);
  const FormatEntry& entry = *find_entry(format);
  std::string text(entry.name);
  for (const auto& [name, in] : entry.options) {
    if (name == nullptr) break;
    text += fmt::format("{} {} ", text == entry.name ? " with" : ",", name);
    std::visit(
        [&]<typename T>(const T* value) {
          if constexpr (std::is_same_v<T, DType>) {
            text += to_string(*value);
          } else if constexpr (std::is_same_v<T, std::vector<TarField>>) {
            text += fields_text(*value);
          } else {
            text += fmt::format(std::is_same_v<T, std::string> ? "\"{}\"" : "{}", *value);
          }
        },
        in(format));
  }
  return text;
}

// **Collective**: what all ranks do together next depends on the format.
void agree_on_format(const Catalog& catalog, const Format& format) {
  const FileList& files = files_of(catalog);
  const Communicator& all = files.context().nodes.all();
  all.together("open files", [&] {
    validate(format);
    const auto& [changed, resized, vanished, appeared, first] = catalog.changes();
    if (resized + vanished == 0) return;
    throw failure(
        ErrorCode::mismatch,
        "open the saved catalog of {}: of its files {} vanished and {} have other sizes, among them {}; "
        "bring them back, or save it anew (\"rota index\", save of a catalog) and load it again",
        catalog.origin(), vanished, resized, first);
  });
  ranks::require_same(all, "open files of " + files.shown_directory(), described(format));
}

}  // namespace

void require_distinct(std::string_view option, std::span<const std::string> names) {
  std::set<std::string_view> seen;
  for (const std::string& name : names) {
    if (!name.empty() && seen.insert(name).second) continue;
    throw failure(ErrorCode::invalid_argument, "open files: the option {}: \"{}\" is {}; name each once",
                  option, name, name.empty() ? "no name" : "named twice");
  }
}

void require_format(std::string_view attempt, std::string_view format) {
  if (format == "auto" || find_entry(std::string(format)) != nullptr) return;
  throw failure(ErrorCode::invalid_argument, "{}: there is no format \"{}\"; use one of \"{}\"", attempt,
                format, fmt::join(formats(), "\", \""));
}

// A name is looked at when all ranks have the same.
void validate(const Format& format) {
  std::visit(
      [](const auto& options) {
        if constexpr (requires { options.validate(); }) options.validate();
      },
      format);
}

}  // namespace rota::internal

namespace rota {

std::vector<std::string> formats() {
  std::vector<std::string> names{"auto"};
  for (const internal::FormatEntry* format : internal::kFormats) names.emplace_back(format->name);
  return names;
}

std::shared_ptr<const Source> open(const Catalog& catalog, const Format& format) {
  internal::agree_on_format(catalog, format);
  const auto* name = std::get_if<std::string>(&format);
  if (name == nullptr) return internal::find_entry(format)->open(catalog, format);
  const std::string found = *name == "auto" ? find_format(catalog) : *name;
  internal::require_format("open " + internal::files_of(catalog).shown_directory(), found);
  const internal::FormatEntry& entry = *internal::find_entry(found);
  return entry.open(catalog, entry.defaults());
}

std::shared_ptr<const Source> open(const Communicator& comm, const std::filesystem::path& path,
                                   const Format& format) {
  comm.together("open a dataset", [&] {
    internal::validate(format);
    const auto* name = std::get_if<std::string>(&format);
    if (name != nullptr) internal::require_format("open " + path.native(), *name);
  });
  return open(Catalog(comm, path), format);
}

}  // namespace rota
