#include "rota/open.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <set>
#include <string_view>
#include <utility>

#include "catalog/file_names.hpp"
#include "core/failure.hpp"
#include "core/parallel.hpp"
#include "formats/file_memory.hpp"
#include "formats/formats.hpp"
#include "ranks/collectives.hpp"

namespace rota::internal {
namespace {

// Such a directory has other files, too.
bool is_mds(const FileList& files) {
  if (files.listing().is_computed()) return false;  // index.json is of no pattern
  bool has_index = false;
  bool has_shard = false;
  const auto names = files.read_names();
  for (std::size_t i = 0; i < files.size() && !(has_index && has_shard); ++i) {
    const std::string& name = (*names)[i];
    if (name == "index.json") has_index = true;
    if (name.find(".mds") != std::string::npos) has_shard = true;
  }
  return has_index && (has_shard || files.size() == 1);
}

// Those of a storage, whose answers are long on their way, are looked at beside each other, unless the first
// one tells.
template <typename Test>
bool all_of(const FileList& files, Test&& test) {
  if (files.size() == 0 || !test(files, 0)) return files.size() == 0;
  std::atomic<bool> are_all = true;
  parallel_for("look into files", std::ssize(files) - 1, 1, files.location().is_stored() ? kStoredAtOnce : 1,
               [&](const LoopPart& part) {
                 const auto i = static_cast<std::size_t>(part.end);
                 if (are_all && !test(files, i)) are_all = false;
               });
  return are_all;
}

bool are_json_lines(const FileList& files) {
  const auto names = files.read_names();
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!is_json_lines(files.path((*names)[i]))) return false;
  }
  return true;
}

bool is_empty(const FileList& files, std::size_t i) { return files.open(i).bytes() == 0; }

// A TFRecord file without records is empty.
bool is_tfrecord_or_empty(const FileList& files, std::size_t i) {
  return is_empty(files, i) || is_tfrecord(files, i);
}

// Of the formats that are found, that of files with such names; "" for others.
std::string_view format_by_name(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kSuffixes = {
      {{".mds", "mds"},
       {".tar", "tar"},
       {".tgz", "tar"},
       {".tbz2", "tar"},
       {".txz", "tar"},
       {".h5", "hdf5"},
       {".hdf5", "hdf5"},
       {".tfrecord", "tfrecord"},
       {".tfrecords", "tfrecord"},
       {".npy", "npy"},
       {".jsonl", "lines"},
       {".ndjson", "lines"}}};
  const std::string_view bare = without_compression(without_query(name));
  for (const auto& [suffix, format] : kSuffixes) {
    if (ends_as(bare, suffix)) return format;
  }
  return {};
}

constexpr std::string_view kWhatToDo =
    "restore it, or leave it out by a glob, or say which format it is (\"files\": each file is a sample)";

// File i is named as `format`, and is of another: throws Error{corrupt}, unless it is compressed and whole,
// and Error{unsupported} where files of that format may not be compressed.
void refuse_damaged(const FileList& files, std::size_t i, std::string_view format) {
  const DatasetFile file = files.open(i);
  const Compression compression = compression_of(file);
  if (compression == Compression::none) {
    throw file.damage(
        0, "it is named as {}, and does not begin so: it is damaged, cut short or something else; {}", format,
        kWhatToDo);
  }
  if (format != "tar" && format != "lines" && format != "tfrecord") {
    throw failure(ErrorCode::unsupported,
                  "open {}: it is compressed, and only tar, lines, TFRecord and MDS are unpacked as they are "
                  "read; unpack it first",
                  file.path());
  }
  // All of it: a checksum stands at its end.
  decompress(file, compression, [](std::span<const std::byte>) { return true; });
}

bool is_of(std::string_view format, const FileList& files, std::size_t i, const std::string& name) {
  if (format == "tar") return is_tar(files, i);
  if (format == "hdf5") return is_hdf5(files, i);
  if (format == "tfrecord") return is_tfrecord_or_empty(files, i);
  return format == "npy" ? is_npy(files, i) : format_by_name(name) == format;
}

// A directory with one damaged or foreign file among others is not to become a dataset of raw bytes. Names
// that are computed end alike, and may be beyond number: one is looked at.
void refuse_mixed(const FileList& files) {
  const auto names = files.read_names();
  const std::size_t looked_at =
      files.listing().is_computed() ? std::min<std::size_t>(1, files.size()) : files.size();
  for (std::size_t i = 0; i < looked_at; ++i) {
    const std::string name = files.path((*names)[i]);
    const std::string_view format = format_by_name(name);
    if (format.empty()) continue;
    if (format == "mds") {
      refuse_splits(files);
      throw failure(ErrorCode::corrupt,
                    "open {}: {} is a shard, and there is no index.json: open the directory of all, or the "
                    "shards are not all written; {}",
                    files.shown_directory(), name, kWhatToDo);
    }
    std::size_t other = 0;
    while (other + 1 < files.size() && is_of(format, files, other, files.path((*names)[other]))) ++other;
    if (format_by_name(files.path((*names)[other])) == format) refuse_damaged(files, other, format);
    throw failure(ErrorCode::invalid_argument, "open {}: {} is named as {}, and {} is no such file: {}",
                  files.shown_directory(), name, format, files.path(other), kWhatToDo);
  }
}

// What is no format of rota's, by its name, and would be a sample of bytes that nobody expects.
void refuse_foreign(const FileList& files) {
  constexpr std::array<std::string_view, 13> kEndings{".parquet", ".arrow", ".feather", ".orc", ".avro",
                                                      ".beton",   ".mdb",   ".zip",     ".7z",  ".rar",
                                                      ".br",      ".idx",   ".npz"};
  const auto names = files.read_names();
  const std::size_t looked_at =
      files.listing().is_computed() ? std::min<std::size_t>(1, files.size()) : files.size();
  for (std::size_t i = 0; i < looked_at; ++i) {
    const std::string path = files.path((*names)[i]);
    const std::string_view name = without_query(path);
    const std::string_view compression = name.substr(without_compression(name).size());
    const bool may_be_compressed =
        !compression.empty() && !ends_as(compression, ".gz") && !compression.starts_with(".zst");
    const bool is_compressed = may_be_compressed && compression_of(files.open(i)) == Compression::other;
    const bool is_foreign =
        std::ranges::any_of(kEndings, [&](std::string_view ending) { return ends_as(name, ending); });
    if (!is_compressed && !is_foreign) continue;
    throw failure(ErrorCode::unsupported, "open {}: it is {}; or say that each file is a sample (\"files\")",
                  files.path(i),
                  is_compressed           ? "compressed, and neither tar, TFRecord nor JSON lines: unpack it"
                  : ends_as(name, ".idx") ? "an index of Megatron-LM, perhaps: say so (\"megatron\")"
                  : ends_as(name, ".npz") ? "arrays of numpy, perhaps: say so (\"npz\", whose option rows "
                                            "says whether a row is a sample, or a file)"
                                          : "of a format that rota does not read: convert it, or wrap what "
                                            "reads it as a source of your own");
  }
}

std::string format_of(const FileList& files) {
  if (is_mds(files)) return "mds";
  if (all_of(files, is_tar)) return "tar";  // which one read tells, where HDF5 is looked for by many
  if (all_of(files, is_npy)) return "npy";
  if (all_of(files, is_hdf5)) return "hdf5";
  if (all_of(files, is_tfrecord_or_empty) && !all_of(files, is_empty)) return "tfrecord";
  if (all_of(files, is_megatron)) return "megatron";
  if (are_json_lines(files)) return "lines";
  refuse_mixed(files);
  refuse_foreign(files);
  return "files";
}

// Any bytes are tokens.
void refuse_other(const Catalog& catalog) {
  const FileList& files = files_of(catalog);
  ranks::on_first_rank(files.context().nodes.all(), "look which format it is", [&] {
    const bool is_known = files.size() > 0 && (is_npy(files, 0) || is_hdf5(files, 0));
    if (!is_known) return;
    throw failure(ErrorCode::invalid_argument,
                  "open {} as tokens: it begins as an NPY or HDF5 file; leave the format out",
                  files.path(std::size_t{0}));
  });
}

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
  return fmt::format("hdf5 with datasets {}, offsets \"{}\", allow_external_links {}, unpack {}",
                     options.datasets, options.offsets, options.allow_external_links, options.unpack);
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
  return fmt::format("tokens with dtype {}, length {}, stride {}", to_string(options.dtype), options.length,
                     options.stride);
}
std::string describe(const MegatronOptions& options) {
  return fmt::format("megatron with sequence_is_sample {}", options.sequence_is_sample);
}
std::string describe(const MdsOptions& options) {
  return fmt::format("mds with columns {}", options.columns);
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
  if (name == "tokens") refuse_other(catalog);
  if (name == "hdf5") return open_as(catalog, Hdf5Options());
  if (name == "tfrecord") return open_as(catalog, TfRecordOptions());
  if (name == "tar") return open_as(catalog, TarOptions());
  if (name == "lines") return make_lines_source(files_of(catalog).with_sizes());
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

std::vector<std::string> formats() {
  return {internal::format_names().begin(), internal::format_names().end()};
}

std::string find_format(const Catalog& catalog) {
  const internal::FileList& files = internal::files_of(catalog);
  return internal::made_on_first_rank(files.context(), "look which format it is", [&] {
    std::string format = files.kept().get().format;
    if (!format.empty()) return format;
    format = internal::format_of(files);
    files.kept().change([&](auto& kept) { kept.format = format; });
    return format;
  });
}

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
