#include "rota/open.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cassert>
#include <set>
#include <string_view>

#include "catalog/file_names.hpp"
#include "core/failure.hpp"
#include "formats/formats.hpp"
#include "ranks/collectives.hpp"

namespace rota::internal {
namespace {

// A name is looked at when all ranks have the same.
void validate(const Format& format) {
  std::visit(
      [](const auto& options) {
        if constexpr (requires { options.validate(); }) options.validate();
      },
      format);
}

std::string describe(const std::string& name) { return fmt::format("the format \"{}\"", name); }
std::string describe(const FilesOptions& options) { return fmt::format("files with keys {}", options.keys); }
std::string describe(const Hdf5Options& options) {
  return fmt::format(
      "hdf5 with datasets {}, offsets \"{}\", allow_external_links {}, unpack {}, groups \"{}\", swmr {}",
      options.datasets, options.offsets, options.allow_external_links, options.unpack, options.groups,
      options.swmr);
}
std::string describe(const TfRecordOptions& options) {
  return fmt::format("tfrecord with verify {}", options.verify);
}
std::string describe(const TarOptions& options) {
  return fmt::format("tar with fields {}, keys {}, allow_missing_end {}", options.fields, options.keys,
                     options.allow_missing_end);
}
std::string describe(const NpyOptions& options) {
  return fmt::format("npy with file_is_sample {}", options.file_is_sample);
}
std::string describe(const NpzOptions& options) {
  return fmt::format("npz with arrays {}, rows {}", options.arrays, options.rows);
}
std::string describe(const TokensOptions& options) {
  return fmt::format("tokens with dtype {}, length {}, stride {}, skip_bytes {}", to_string(options.dtype),
                     options.length, options.stride, options.skip_bytes);
}
std::string describe(const MegatronOptions& options) {
  return fmt::format("megatron with sequence_is_sample {}", options.sequence_is_sample);
}
std::string describe(const MdsOptions& options) {
  return fmt::format("mds with columns {}, verify {}", options.columns, options.verify);
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
  ranks::require_same(all, "open files of " + files.shown_directory(),
                      std::visit([](const auto& options) { return describe(options); }, format));
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

std::shared_ptr<const Source> open_as(const Catalog& catalog, const std::string& format) {
  const std::string name = format == "auto" ? find_format(catalog) : format;
  require_format("open " + files_of(catalog).shown_directory(), name);
  if (name == "hdf5") return open_as(catalog, Hdf5Options());
  if (name == "tfrecord") return open_as(catalog, TfRecordOptions());
  if (name == "tar") return open_as(catalog, TarOptions());
  if (name == "lines") {
    const FileList& files = files_of(catalog);
    ranks::on_first_rank(files.context().nodes.all(), "look which format it is",
                         [&] { require_no_pointers(files); });
    return make_lines_source(files_of(catalog).with_sizes());
  }
  if (name == "npy") return open_as(catalog, NpyOptions());
  if (name == "npz") return open_as(catalog, NpzOptions());
  if (name == "tokens") return open_as(catalog, TokensOptions());
  if (name == "megatron") return open_as(catalog, MegatronOptions());
  if (name == "mds") return open_as(catalog, MdsOptions());
  assert(name == "files");
  return open_as(catalog, FilesOptions());
}

}  // namespace rota::internal

namespace rota {

std::shared_ptr<const Source> open(const Catalog& catalog, const Format& format) {
  internal::agree_on_format(catalog, format);
  return std::visit([&](const auto& options) { return internal::open_as(catalog, options); }, format);
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
