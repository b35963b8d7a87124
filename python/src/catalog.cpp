// Files: catalogs of them, and sources that open them.

#include "rota/catalog.hpp"

#include <fmt/format.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "communicator.hpp"
#include "errors.hpp"
#include "functions.hpp"
#include "options.hpp"
#include "rota/error.hpp"
#include "rota/open.hpp"
#include "source.hpp"
#include "values.hpp"

namespace rota::python {
namespace {

/// A catalog, which closes its directory without the GIL.
class PyCatalog {
 public:
  template <typename Make>
  PyCatalog(const mpi::Communicator& ranks, const Make& make) : needs_mpi_(mpi::needs_mpi(ranks)) {
    const Unlocked unlocked;
    // NOLINTNEXTLINE(cppcoreguidelines-prefer-member-initializer): without the lock
    catalog_ = dies_without_gil(std::make_shared<const Catalog>(make()));
  }
  [[nodiscard]] const Catalog& get() const noexcept { return *catalog_; }
  /// For what its ranks do together.
  [[nodiscard]] const Catalog& together() const {
    if (needs_mpi_) require_no_end("use a catalog");
    return *catalog_;
  }

 private:
  std::shared_ptr<const Catalog> catalog_;
  bool needs_mpi_;
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

py::object changes_of(const PyCatalog& self) {
  const CatalogChanges& changes = self.get().changes();
  return package("CatalogChanges")(changes.changed, changes.resized, changes.vanished, changes.appeared,
                                   to_file_name(changes.first));
}

// The format of that name, with options that Python's side has checked.
Format to_format(const std::string& format, const py::dict& given) {
  const auto is = [&](const char* name) { return file_option<bool>(given, name); };
  const auto names = [&](const char* name) {
    std::vector<std::string> made;
    for (const py::handle one : given[name]) made.push_back(bytes_of_name(one));
    return made;
  };
  const auto number = [&](const char* name) { return file_option<std::int64_t>(given, name); };
  if (format == "hdf5") {
    return Hdf5Options{.datasets = names("datasets"), .allow_external_links = is("allow_external_links")};
  }
  if (format == "tfrecord") return TfRecordOptions{.verify = is("verify")};
  if (format == "tar") {
    return TarOptions{
        .fields = names("fields"), .keys = is("keys"), .allow_missing_end = is("allow_missing_end")};
  }
  if (format == "npy") return NpyOptions{.file_is_sample = is("file_is_sample")};
  if (format == "npz") return NpzOptions{.arrays = names("arrays"), .rows = is("rows")};
  if (format == "tokens") {
    return TokensOptions{
        .dtype = to_dtype(given["dtype"]), .length = number("length"), .stride = number("stride")};
  }
  if (format == "megatron") {
    return MegatronOptions{.sequence_is_sample = is("sequence_is_sample")};
  }
  if (format == "files") return FilesOptions{.keys = is("keys")};
  if (format == "mds") return MdsOptions{.columns = names("columns")};
  return format;
}

PySource open_catalog(const PyCatalog& catalog, const std::string& format, const py::dict& options) {
  const Format as = to_format(format, options);
  const Unlocked unlocked;
  return {dies_without_gil(rota::open(catalog.together(), as))};
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
    const Format* const format = find(name, given);
    return format == nullptr ? py::dict() : format->plain(given);
  });
  module.def("format_options", &format_options);
  module.def("formats", &formats);
  module.def(
      "find_format", [](const PyCatalog& catalog) { return find_format(catalog.together()); }, Released());
  module.def("open", &open_catalog);
}

}  // namespace rota::python
