// Files: catalogs of them, and sources that open them.

#include "rota/catalog.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "formats/formats.hpp"
#include "objects.hpp"
#include "options.hpp"
#include "rota/error.hpp"
#include "rota/open.hpp"
#include "values.hpp"

namespace rota::python {
namespace {

/// A catalog, which closes its directory without the GIL.
class PyCatalog {
 public:
  template <typename Make>
  PyCatalog(const Communicator& ranks, const Make& make)
      : catalog_(dies_without_gil(unlocked([&] { return std::make_shared<const Catalog>(make()); }))),
        has_ended_(ranks::end_of(ranks)) {}
  [[nodiscard]] const Catalog& get() const noexcept { return *catalog_; }
  /// For what its ranks do together.
  [[nodiscard]] const Catalog& together() const {
    require_no_end(has_ended_, "use a catalog");
    return *catalog_;
  }

 private:
  std::shared_ptr<const Catalog> catalog_;
  HasEnded has_ended_;
};

// `kind` is what `from` is: "path", "paths", "manifest", "pattern" or "bytes".
std::unique_ptr<PyCatalog> make_catalog(const std::string& kind, const py::object& from,
                                        const CatalogOptions& options, const PatternOptions& pattern,
                                        const PyCommunicator* comm) {
  const auto ranks = ranks_of(comm);
  const auto make = [&](const auto& work) { return std::make_unique<PyCatalog>(*ranks, work); };
  if (kind == "paths") {
    return make([&, paths = from.cast<std::vector<std::string>>()] {
      return Catalog::from_paths(*ranks, paths, options);
    });
  }
  const auto text = from.cast<std::string>();
  if (kind == "manifest") return make([&] { return Catalog::from_manifest(*ranks, text, options); });
  if (kind == "bytes") return make([&] { return Catalog::deserialize(text, options); });
  if (kind == "path") return make([&] { return Catalog(*ranks, text, options); });
  return make([&] { return Catalog::from_pattern(*ranks, text, pattern, options); });
}

OptionTable<Format> options_of(const internal::FormatEntry& format) {
  OptionTable<Format> table{"open files", {}, format.defaults()};
  for (const auto& [name, in] : format.options) {
    if (name == nullptr) break;
    table.options.push_back({name,
                             [in = in](Format& options, py::handle value, const Argument& as) {
                               std::visit([&](auto* to) { take(value, as, *to); }, in(options));
                             },
                             [in = in](Format options) {
                               return std::visit([](auto* from) { return give(*from); }, in(options));
                             }});
  }
  return table;
}

py::dict format_options() {
  py::dict made;
  for (const internal::FormatEntry* format : internal::kFormats) {
    const py::dict options = options_of(*format).defaults();
    if (!options.empty()) made[py::str(format->name)] = options;
  }
  return made;
}

// Those of the format of that name, where it has some. Of others, TypeError for any option.
std::optional<OptionTable<Format>> find_options(const std::string& name, const py::dict& given) {
  std::string others;
  for (const internal::FormatEntry* format : internal::kFormats) {
    const OptionTable<Format> table = options_of(*format);
    const py::dict options = table.defaults();
    if (format->name == name && !options.empty()) return table;
    if (given.empty() || !options.contains(given.begin()->first)) continue;
    others +=
        fmt::format("; \"{}\" has {}", format->name, py::str(", ").attr("join")(options).cast<std::string>());
  }
  const auto names = formats();
  const bool is_known = std::ranges::find(names, name) != names.end();  // opening refuses others
  if (given.empty() || !is_known) return std::nullopt;
  throw py::type_error(fmt::format("open files: format \"{}\" has no option {}; name the format{}", name,
                                   given.begin()->first.cast<std::string>(), others));
}

py::dict plain_format_options(const std::string& name, const py::dict& given) {
  const auto table = find_options(name, given);
  if (!table) return {};
  internal::validate(table->parse(given));
  return table->plain(given);
}

PySource open_catalog(const PyCatalog& catalog, const std::string& name, const py::dict& options) {
  const auto table = find_options(name, options);
  const Format format = table ? table->parse(options) : Format(name);
  const Unlocked unlocked;
  return PySource(open(catalog.together(), format));
}

}  // namespace

void define_catalogs(py::module_& module) {
  using Released = py::call_guard<Unlocked>;
  py::class_<PyCatalog>(module, "Catalog")
      .def(py::init(&make_catalog))
      .def("__len__", [](const PyCatalog& self) { return self.get().size(); })
      .def("__getitem__",
           [](const PyCatalog& self, py::handle i) {
             return to_file_name(self.get().path(take_index(i, self.get().size(), "look up file")));
           })
      .def(
          "bytes",
          [](const PyCatalog& self, py::handle i) {
            return self.get().bytes(take_index(i, self.get().size(), "look up file"));
          },
          py::arg("i"),
          "The size of file i when it was listed. InvalidArgumentError where changes are detected by name.")
      .def_property_readonly(
          "fingerprint", [](const PyCatalog& self) { return to_string(self.get().fingerprint()); },
          "What the files are known by: names, and sizes unless changes are detected by name.")
      .def_property_readonly(
          "changes", [](const PyCatalog& self) { return self.get().changes(); },
          "What has changed since a loaded catalog was saved: `CatalogChanges`.")
      .def_property_readonly(
          "origin", [](const PyCatalog& self) { return to_file_name(self.get().origin()); },
          "What it was made of: a path, a glob, a manifest or a pattern.")
      .def_property_readonly(
          "change_detection", [](const PyCatalog& self) { return to_string(self.get().change_detection()); },
          "\"by_size\" or \"by_name\".")
      .def(
          "_save",
          [](const PyCatalog& self, const std::string& file, const std::string& format) {
            self.together().save(file, format);
          },
          Released())
      .def(
          "to_bytes",
          [](const PyCatalog& self) {
            return py::bytes(unlocked([&] { return self.together().serialize(); }));
          },
          "The catalog for other processes, with all that sources have found so far: see `from_bytes`.");
  module.def("plain_format_options", &plain_format_options);
  module.def("format_options", &format_options);
  module.def("formats", &formats);
  module.def(
      "find_format", [](const PyCatalog& catalog) { return find_format(catalog.together()); }, Released());
  module.def("open", &open_catalog);
}

}  // namespace rota::python
