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
#include "rota/error.hpp"
#include "rota/open.hpp"
#include "source.hpp"

namespace rota::python {
namespace {

// Options by name; Python's side has all of them, and has checked their types.
template <typename T>
T file_option(const py::dict& options, const char* name) {
  return options[name].cast<T>();
}

// For options that are checked later: no number that Python has is another one in C++.
int int_option(const py::dict& options, const char* name) {
  using Limits = std::numeric_limits<int>;
  return static_cast<int>(
      std::clamp<std::int64_t>(file_option<std::int64_t>(options, name), Limits::min(), Limits::max()));
}

template <typename Enum>
Enum enum_option(const py::dict& options, const char* name, std::initializer_list<Enum> all) {
  const auto text = file_option<std::string>(options, name);
  std::string names;
  for (const Enum value : all) {
    if (to_string(value) == text) return value;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", to_string(value));
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("make a catalog: {} is \"{}\"; it must be one of {}", name, text, names));
}

CatalogOptions to_catalog_options(const py::dict& given) {
  CatalogOptions options;
  options.change_detection =
      enum_option(given, "change_detection", {ChangeDetection::by_size, ChangeDetection::by_name});
  options.listing_threads = int_option(given, "listing_threads");
  options.indexing_threads = int_option(given, "indexing_threads");
  options.max_open_files = int_option(given, "max_open_files");
  options.access =
      enum_option(given, "access", {Access::cached, Access::direct, Access::mapped, Access::automatic});
  options.share_files = file_option<bool>(given, "share_files");
  options.shared_memory_limit = file_option<std::int64_t>(given, "shared_memory_limit");
  options.shared_directory = file_option<std::filesystem::path>(given, "shared_directory");
  options.all_names = file_option<bool>(given, "all_names");
  options.progress = to_progress(given["progress"]);
  return options;
}

PatternOptions to_pattern_options(const py::dict& given) {
  PatternOptions options;
  options.files = file_option<std::int64_t>(given, "files");
  options.folders = file_option<std::int64_t>(given, "folders");
  options.layout =
      enum_option(given, "layout", {FolderLayout::round_robin, FolderLayout::blocks, FolderLayout::restart});
  return options;
}

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
std::unique_ptr<PyCatalog> make_catalog(const std::string& kind, const std::string& from,
                                        const py::dict& pattern, const py::dict& given,
                                        const PyCommunicator* comm) {
  const CatalogOptions options = to_catalog_options(given);
  const auto ranks = ranks_of(comm);
  if (kind == "manifest")
    return std::make_unique<PyCatalog>(*ranks, [&] { return Catalog::from_manifest(*ranks, from, options); });
  if (kind == "paths") {
    std::vector<std::string> paths;
    for (std::size_t begin = 0; begin < from.size();) {  // each ends in a zero byte
      const std::size_t end = from.find('\0', begin);
      paths.push_back(from.substr(begin, end - begin));
      begin = end + 1;
    }
    return std::make_unique<PyCatalog>(*ranks, [&] { return Catalog::from_paths(*ranks, paths, options); });
  }
  if (kind == "bytes")
    return std::make_unique<PyCatalog>(*ranks, [&] { return Catalog::deserialize(from, options); });
  if (kind == "path")
    return std::make_unique<PyCatalog>(*ranks, [&] { return Catalog(*ranks, from, options); });
  const PatternOptions how = to_pattern_options(pattern);
  return std::make_unique<PyCatalog>(*ranks,
                                     [&] { return Catalog::from_pattern(*ranks, from, how, options); });
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
      .def("_path", [](const PyCatalog& self, std::int64_t i) { return to_file_name(self.get().path(i)); })
      .def("_bytes", [](const PyCatalog& self, std::int64_t i) { return self.get().bytes(i); })
      .def_property_readonly("fingerprint",
                             [](const PyCatalog& self) { return to_string(self.get().fingerprint()); })
      .def_property_readonly("changes", &changes_of)
      .def_property_readonly("origin",
                             [](const PyCatalog& self) { return to_file_name(self.get().origin()); })
      .def_property_readonly("change_detection",
                             [](const PyCatalog& self) { return to_string(self.get().change_detection()); })
      .def(
          "_save",
          [](const PyCatalog& self, const std::string& file, const std::string& format) {
            self.together().save(file, format);
          },
          Released())
      .def("to_bytes", [](const PyCatalog& self) {
        std::string bytes;
        {
          const Unlocked unlocked;
          bytes = self.together().serialize();
        }
        return py::bytes(bytes);
      });
  module.def("check_catalog_options", [](const py::dict& pattern, const py::dict& options) {
    static_cast<void>(to_catalog_options(options));
    if (!pattern.empty()) static_cast<void>(to_pattern_options(pattern));
  });
  module.def("formats", &formats);
  module.def(
      "find_format", [](const PyCatalog& catalog) { return find_format(catalog.together()); }, Released());
  module.def("open", &open_catalog);
}

}  // namespace rota::python
