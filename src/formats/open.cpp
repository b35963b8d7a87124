#include "rota/open.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <set>
#include <string_view>
#include <utility>

#include "catalog/file_names.hpp"
#include "core/parallel.hpp"
#include "formats/formats.hpp"
#include "formats/hdf5/superblock.hpp"
#include "formats/records.hpp"
#include "mpi/collectives.hpp"
#include "rota/error.hpp"

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
  parallel_for("look into files", std::ssize(files) - 1, 1, files.place().is_stored() ? kStoredAtOnce : 1,
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
  const std::string_view bare = without_packing(without_query(name));
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
    throw file.damage(0, fmt::format("it is named as {}, and does not begin so: it is damaged, cut short or "
                                     "something else; {}",
                                     format, kWhatToDo));
  }
  if (format != "tar" && format != "lines" && format != "tfrecord") {
    throw Error(
        ErrorCode::unsupported,
        fmt::format(
            "open {}: it is compressed, and only tar, lines, TFRecord and MDS are unpacked as they are "
            "read; unpack it first",
            file.path()));
  }
  // All of it: a checksum stands at its end.
  decompress(file, compression, [](std::span<const std::byte>) { return true; });
}

bool is_of(std::string_view format, const FileList& files, std::size_t i, const std::string& name) {
  if (format == "tar") return is_tar(files, i);
  if (format == "hdf5") return has_hdf5_signature(files, i);
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
      throw Error(
          ErrorCode::corrupt,
          fmt::format("open {}: {} is a shard, and there is no index.json: open the directory of all, or "
                      "the shards are not all written; {}",
                      files.directory(), name, kWhatToDo));
    }
    std::size_t other = 0;
    while (other + 1 < files.size() && is_of(format, files, other, files.path((*names)[other]))) ++other;
    if (format_by_name(files.path((*names)[other])) == format) refuse_damaged(files, other, format);
    throw Error(ErrorCode::invalid_argument,
                fmt::format("open {}: {} is named as {}, and {} is no such file: {}", files.directory(), name,
                            format, files.path(other), kWhatToDo));
  }
}

// What is no format of rota's, by its name, and would be a sample of bytes that nobody expects.
void refuse_foreign(const FileList& files) {
  constexpr std::array<std::string_view, 12> kEndings{".parquet", ".arrow", ".feather", ".orc",
                                                      ".avro",    ".beton", ".mdb",     ".zip",
                                                      ".7z",      ".rar",   ".br",      ".idx"};
  const auto names = files.read_names();
  const std::size_t looked_at =
      files.listing().is_computed() ? std::min<std::size_t>(1, files.size()) : files.size();
  for (std::size_t i = 0; i < looked_at; ++i) {
    const std::string path = files.path((*names)[i]);
    const std::string_view name = without_query(path);
    const std::string_view packing = name.substr(without_packing(name).size());
    const bool may_be_packed = !packing.empty() && !ends_as(packing, ".gz") && !packing.starts_with(".zst");
    const bool is_packed = may_be_packed && compression_of(files.open(i)) == Compression::other;
    const bool is_foreign =
        std::ranges::any_of(kEndings, [&](std::string_view ending) { return ends_as(name, ending); });
    if (!is_packed && !is_foreign) continue;
    throw Error(
        ErrorCode::unsupported,
        fmt::format("open {}: it is {}; or say that each file is a sample (\"files\")", files.path(i),
                    is_packed               ? "compressed, and neither tar nor JSON lines: unpack it"
                    : ends_as(name, ".idx") ? "an index of Megatron-LM, perhaps: say so (\"megatron\")"
                                            : "of a format that rota does not read: convert it, or wrap what "
                                              "reads it as a source of your own"));
  }
}

std::string format_of(const FileList& files) {
  if (is_mds(files)) return "mds";
  if (all_of(files, is_tar)) return "tar";  // which one read tells, where HDF5 is looked for by many
  if (all_of(files, is_npy)) return "npy";
  if (all_of(files, has_hdf5_signature)) return "hdf5";
  if (all_of(files, is_tfrecord_or_empty) && !all_of(files, is_empty)) return "tfrecord";
  if (all_of(files, is_megatron)) return "megatron";
  if (are_json_lines(files)) return "lines";
  refuse_mixed(files);
  refuse_foreign(files);
  return "files";
}

// Of formats that any bytes are of.
void refuse_other(const Catalog& catalog, std::string_view format) {
  const FileList& files = files_of(catalog);
  (void)files.context().on_first_rank("look which format it is", [&] {
    const bool is_known = files.size() > 0 && (is_npy(files, 0) || has_hdf5_signature(files, 0));
    if (!is_known) return std::string();
    throw Error(ErrorCode::invalid_argument,
                fmt::format("open {} as {}: it begins as an NPY or HDF5 file; leave the format out",
                            files.path(std::size_t{0}), format));
  });
}

}  // namespace

void require_distinct(std::string_view option, std::span<const std::string> names) {
  std::set<std::string_view> seen;
  for (const std::string& name : names) {
    if (!name.empty() && seen.insert(name).second) continue;
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: \"{}\" is {}; name each once", option, name,
                                                         name.empty() ? "no name" : "named twice"));
  }
}

void agree_on_format(const Catalog& catalog, const std::string& how, const std::function<void()>& validate) {
  const FileList& files = files_of(catalog);
  const mpi::Communicator& all = files.context().nodes.all();
  mpi::together(all, "open files", [&] {
    validate();
    const auto& [changed, resized, vanished, appeared, first] = catalog.changes();
    if (resized + vanished == 0) return;
    throw Error(ErrorCode::mismatch,
                fmt::format("open the saved catalog of {}: of its files {} vanished and {} have other sizes, "
                            "among them {}; bring them back, or save it anew (\"rota index\", Catalog::save) "
                            "and load it again",
                            catalog.origin(), vanished, resized, first));
  });
  const std::string& directory = files.directory();
  mpi::require_same(all, "open files of " + (directory.empty() ? "." : directory), how);
}

bool has_hdf5_signature(const FileList& files, std::size_t i) {
  const DatasetFile file = files.open(i);
  const auto read = [&](std::uint64_t offset, std::span<std::byte> to) {
    file.read(offset, to);
    return true;
  };
  return find_hdf5_signature({file.bytes(), read}).has_value();
}

}  // namespace rota::internal

namespace rota {

std::vector<std::string> formats() {
  return {internal::format_names().begin(), internal::format_names().end()};
}

std::string find_format(const Catalog& catalog) {
  const internal::FileList& files = internal::files_of(catalog);
  return files.context().on_first_rank("look which format it is", [&] {
    std::string format = files.kept().format();
    if (!format.empty()) return format;
    format = internal::format_of(files);
    files.kept().set_format(format);
    return format;
  });
}

std::shared_ptr<const Source> open(const Catalog& catalog, const std::string& format) {
  internal::agree_on_format(catalog, fmt::format("the format \"{}\"", format));
  const std::string known = format == "auto" ? find_format(catalog) : format;
  internal::require_format("open " + internal::files_of(catalog).directory(), known);
  if (known == "tokens" || known == "lines") internal::refuse_other(catalog, known);
  if (known == "hdf5") return open_hdf5(catalog);
  if (known == "tfrecord") return open_tfrecord(catalog);
  if (known == "tar") return open_tar(catalog);
  if (known == "lines") return open_lines(catalog);
  if (known == "npy") return open_npy(catalog);
  if (known == "npz") return open_npz(catalog);
  if (known == "tokens") return open_tokens(catalog);
  if (known == "megatron") return open_megatron(catalog);
  if (known == "mds") return open_mds(catalog);
  return open_files(catalog);
}

std::shared_ptr<const Source> open(const mpi::Communicator& comm, const std::filesystem::path& path,
                                   const std::string& format) {
  mpi::together(comm, "open a dataset", [&] { internal::require_format("open " + path.native(), format); });
  return open(Catalog(comm, path), format);
}

}  // namespace rota
