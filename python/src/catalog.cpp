// Files: catalogs of them, and sources that open them.

#include "rota/catalog.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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

/// A format with options, by their names in Python.
struct FormatOptions {
  const char* name;
  std::function<Format(const py::dict&)> with;
  std::function<py::dict(const py::dict&)> plain;
  std::function<py::dict()> defaults;
};

template <typename Options>
FormatOptions format(const char* name, std::vector<Option<Options>> options) {
  const OptionTable<Options> table{"open files", std::move(options)};
  return {name, [table](const py::dict& given) { return Format(table.parse(given)); },
          [table](const py::dict& given) { return table.plain(given); },
          [table] { return table.values({}); }};
}

const std::vector<FormatOptions>& formats_with_options() {
  static const std::vector<FormatOptions> formats{
      format<FilesOptions>("files", {option("keys", &FilesOptions::keys)}),
      format<Hdf5Options>(
          "hdf5", {option("datasets", &Hdf5Options::datasets), option("offsets", &Hdf5Options::offsets),
                   option("allow_external_links", &Hdf5Options::allow_external_links),
                   option("unpack", &Hdf5Options::unpack), option("groups", &Hdf5Options::groups),
                   option("swmr", &Hdf5Options::swmr)}),
      format<TfRecordOptions>("tfrecord", {option("verify", &TfRecordOptions::verify)}),
      format<TarOptions>("tar", {option("fields", &TarOptions::fields), option("keys", &TarOptions::keys),
                                 option("allow_missing_end", &TarOptions::allow_missing_end)}),
      format<NpyOptions>("npy", {option("file_is_sample", &NpyOptions::file_is_sample)}),
      format<NpzOptions>("npz", {option("arrays", &NpzOptions::arrays), option("rows", &NpzOptions::rows)}),
      format<TokensOptions>(
          "tokens",
          {option("dtype", &TokensOptions::dtype), option("length", &TokensOptions::length),
           option("stride", &TokensOptions::stride), option("skip_bytes", &TokensOptions::skip_bytes)}),
      format<MegatronOptions>("megatron",
                              {option("sequence_is_sample", &MegatronOptions::sequence_is_sample)}),
      format<MdsOptions>("mds",
                         {option("columns", &MdsOptions::columns), option("verify", &MdsOptions::verify)})};
  return formats;
}

py::dict format_options() {
  py::dict made;
  for (const FormatOptions& format : formats_with_options()) made[format.name] = format.defaults();
  return made;
}

// The format of that name, where it has options. Of others, TypeError for any option.
const FormatOptions* find(const std::string& name, const py::dict& given) {
  std::string others;
  for (const FormatOptions& format : formats_with_options()) {
    if (format.name == name) return &format;
    const py::dict options = format.defaults();
    if (given.empty() || !options.contains(given.begin()->first)) continue;
    others +=
        fmt::format("; \"{}\" has {}", format.name, py::str(", ").attr("join")(options).cast<std::string>());
  }
  const auto names = formats();
  const bool is_known = std::ranges::find(names, name) != names.end();  // opening refuses others
  if (given.empty() || !is_known) return nullptr;
  throw py::type_error(fmt::format("open files: format \"{}\" has no option {}; name the format{}", name,
                                   given.begin()->first.cast<std::string>(), others));
}

PySource open_catalog(const PyCatalog& catalog, const std::string& name, const py::dict& options) {
  const FormatOptions* const known = find(name, options);
  const Format format = known != nullptr ? known->with(options) : Format(name);
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
  module.def("plain_format_options", [](const std::string& name, const py::dict& given) {
    const FormatOptions* const format = find(name, given);
    return format == nullptr ? py::dict() : format->plain(given);
  });
  module.def("format_options", &format_options);
  module.def("formats", &formats);
  module.def(
      "find_format", [](const PyCatalog& catalog) { return find_format(catalog.together()); }, Released());
  module.def("open", &open_catalog);
}

}  // namespace rota::python
