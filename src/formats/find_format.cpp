// Which format files are of: by how they begin, or by their names.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <map>
#include <string_view>
#include <utility>

#include "catalog/bad_files.hpp"
#include "catalog/file_names.hpp"
#include "core/failure.hpp"
#include "core/parallel.hpp"
#include "formats/file_memory.hpp"
#include "formats/formats.hpp"

namespace rota::internal {
namespace {

constexpr std::string_view kAsFiles = "or say that each file is a sample (\"files\")";

/// What rota does not read, by how a file begins.
struct Foreign {
  std::string_view begin;
  std::string_view what;
  std::string_view remedy = "convert it, or wrap what reads it as a source of your own";
};
constexpr std::string_view kToNetCdf4 = "convert it to NetCDF-4 (nccopy -k nc4), which rota reads";
constexpr std::array<Foreign, 13> kForeign{{
    {"CDF\x01", "classic NetCDF", kToNetCdf4},
    {"CDF\x02", "classic NetCDF with 64-bit offsets", kToNetCdf4},
    {"CDF\x05", "classic NetCDF with 64-bit data (CDF-5)", kToNetCdf4},
    {"\x0e\x03\x13\x01", "HDF4", "convert it to HDF5 (h4toh5)"},
    {"MATLAB 5.0 MAT-file", "a MATLAB file from before version 7.3", "save it with -v7.3, which is HDF5"},
    {"version https://git-lfs", "a pointer of Git LFS, and not its data",
     "run \"git lfs pull\" where it was cloned"},
    {"GRIB", "GRIB"},
    {"BUFR", "BUFR"},
    {"PAR1", "Parquet"},
    {"ARROW1", "Arrow"},
    {"ORC", "ORC"},
    {"Obj\x01", "Avro"},
    {"SQLite format 3", "an SQLite database"},
}};

// How many are looked at: of names that are computed, which end alike, and may be beyond number, `most`.
std::size_t looked_at(const FileList& files, std::size_t most) {
  return files.listing().is_computed() ? std::min(most, files.size()) : files.size();
}

// How many may be bad: a lesser part, where names end alike.
std::int64_t most_bad(const FileList& files) {
  if (files.context().options.max_bad_files == 0 || files.size() == 0) return 0;
  const auto names = files.read_names();
  const auto ending = [&](std::size_t i) {
    const std::string& name = (*names)[i];
    return name.substr(std::min(name.find_last_of("./"), name.size()));
  };
  const std::string first = ending(0);
  for (std::size_t i = 1; i < looked_at(files, 1); ++i) {
    if (ending(i) != first) return 0;
  }
  return std::min(std::int64_t{files.context().options.max_bad_files}, (std::ssize(files) - 1) / 2);
}

// But for `most`. Those of a storage, whose answers are long on their way, are looked at beside each other,
// unless the first one tells.
template <typename Test>
bool all_of(const FileList& files, Test&& test, std::int64_t most = 0) {
  if (files.size() == 0) return true;
  std::atomic<std::int64_t> others = 0;
  const auto look = [&](std::size_t i) {
    bool is_one = false;
    try {
      is_one = test(files, i);
    } catch (const Error& error) {
      if (!may_be_bad(files.context(), files.location(), FileWork::opening, error)) throw;
    }
    if (!is_one) ++others;
  };
  look(0);
  if (others > most) return false;
  parallel_for("look into files", std::ssize(files) - 1, 1, files.location().is_stored() ? kStoredAtOnce : 1,
               [&](const LoopPart& part) {
                 if (others <= most) look(static_cast<std::size_t>(part.end));
               });
  return others <= most;
}

bool is_empty(const FileList& files, std::size_t i) { return files.open(i).bytes() == 0; }

// Of the formats that are found, that of files with such names; null for others.
const FormatEntry* format_by_name(std::string_view name) {
  const auto* const found =
      std::ranges::find_if(kFoundFormats, [&](const FormatEntry* one) { return is_named_as(*one, name); });
  return found == kFoundFormats.end() ? nullptr : *found;
}

// File i is named as `format`, and is of another: throws Error{corrupt}, unless it is compressed and whole,
// and Error{unsupported} where files of that format may not be compressed.
void refuse_damaged(const FileList& files, std::size_t i, const FormatEntry& format) {
  const DatasetFile file = files.open(i);
  refuse_foreign(file, kWhatToDo);
  const Compression compression = compression_of(file);
  if (compression == Compression::none) {
    throw file.damage(
        0, "it is named as {}, and does not begin so: it is damaged, cut short or something else; {}",
        format.name, kWhatToDo);
  }
  if (!format.unpacks) {
    throw failure(ErrorCode::unsupported,
                  "open {}: it is compressed, and only tar, lines, TFRecord and MDS are unpacked as they are "
                  "read; unpack it first",
                  file.path());
  }
  // All of it: a checksum stands at its end.
  decompress(file, compression, [](std::span<const std::byte>) { return true; });
}

// Of a format that bytes tell.
bool is_of(const FormatEntry& format, const FileList& files, std::size_t i) {
  return (format.may_be_empty && is_empty(files, i)) || format.begins(files, i);
}

// A directory with one damaged or foreign file among others is not to become a dataset of raw bytes.
void refuse_mixed(const FileList& files) {
  const auto names = files.read_names();
  for (std::size_t i = 0; i < looked_at(files, 1); ++i) {
    const std::string name = files.path((*names)[i]);
    const FormatEntry* const format = format_by_name(name);
    if (format == nullptr) continue;
    if (format->refuse != nullptr) format->refuse(files, name);
    const auto is_one = [&](std::size_t k) {
      return format->begins == nullptr ? is_named_as(*format, files.path((*names)[k]))
                                       : is_of(*format, files, k);
    };
    std::size_t other = 0;
    while (other + 1 < files.size() && is_one(other)) ++other;
    if (is_named_as(*format, files.path((*names)[other]))) refuse_damaged(files, other, *format);
    throw failure(ErrorCode::invalid_argument, "open {}: {} is named as {}, and {} does not begin so: {}",
                  files.shown_directory(), name, format->name, files.path(other), kWhatToDo);
  }
}

// Some files of each kind of name: what is between the last dot and the end, without digits.
std::vector<std::size_t> some_of(const FileList& files) {
  constexpr std::size_t kMostKinds = 64;
  constexpr std::size_t kMostOfKind = 3;
  std::map<std::string, std::size_t> kinds;
  std::vector<std::size_t> some;
  const auto names = files.read_names();
  for (std::size_t i = 0; i < looked_at(files, kMostOfKind); ++i) {
    std::string kind = (*names)[i];
    kind.erase(0, std::min(kind.find_last_of("./"), kind.size()));
    std::erase_if(kind, [](unsigned char c) { return std::isdigit(c) != 0; });
    if (kinds.size() >= kMostKinds && !kinds.contains(kind)) continue;
    if (kinds[kind]++ < kMostOfKind) some.push_back(i);
  }
  return some;
}

// What a look into some files shows: nothing is to become a dataset of raw bytes because of one more file.
void refuse_contents(const FileList& files) {
  const std::vector<std::size_t> some = some_of(files);
  parallel_for("look into files", std::ssize(some), 1, files.location().is_stored() ? kStoredAtOnce : 1,
               [&](const LoopPart& part) {
                 const std::size_t i = some[static_cast<std::size_t>(part.begin)];
                 const DatasetFile file = files.open(i);
                 refuse_foreign(file, kAsFiles);
                 for (const FormatEntry* format : kFoundFormats) {
                   // Without endings: it is pairs of files that are of it, and one alone is not.
                   if (format->endings[0].empty() || format->begins == nullptr || !format->begins(files, i))
                     continue;
                   throw failure(
                       ErrorCode::invalid_argument,
                       "open {}: {} is of the format {}, and other files are not: name those that are by a "
                       "glob; {}",
                       files.shown_directory(), file.path(), format->name, kAsFiles);
                 }
               });
}

// What other programs keep in directories, by its names: Zarr 2's are hidden.
std::string_view find_store(const FileList& files) {
  if (files.listing().is_computed()) return {};
  bool has_index = false;
  bool has_chunk = false;
  const int most =
      files.location().is_stored() ? 1 : 16;  // directories; each look into a storage is a request
  int asked = 0;
  std::string before;
  const auto names = files.read_names();
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string& name = (*names)[i];
    const std::string_view last = std::string_view(name).substr(name.rfind('/') + 1);
    if (last == "zarr.json" || name.find(".zarr/") != std::string::npos) return "Zarr";
    if (ends_as(last, ".lance") || name.find("/_versions/") != std::string::npos) return "Lance";
    has_index |= last == "index.json";
    has_chunk |= last.starts_with("chunk-") && last.ends_with(".bin");
    if (has_index && has_chunk) return "litData";
    const std::string directory = name.substr(0, name.rfind('/') + 1);
    if (asked >= most || (asked > 0 && directory == before)) continue;
    ++asked;
    before = directory;
    for (const char* const mark : {".zarray", ".zgroup"}) {
      if (files.location().probe(directory + mark) == 0) return "Zarr";
    }
  }
  return files.location().probe(".zgroup") == 0 ? "Zarr" : "";
}

// What is no format of rota's, and would be samples of bytes that nobody expects.
void refuse_named(const FileList& files) {
  if (const std::string_view store = find_store(files); !store.empty()) {
    throw failure(ErrorCode::unsupported,
                  "open {}: it is data of {}: convert it, or wrap what reads it as a source of your own; {}",
                  files.shown_directory(), store, kAsFiles);
  }
  constexpr std::array<std::string_view, 11> kEndings{
      ".parquet", ".arrow", ".feather", ".orc", ".avro", ".beton", ".mdb", ".zip", ".7z", ".rar", ".br"};
  const auto names = files.read_names();
  for (std::size_t i = 0; i < looked_at(files, 1); ++i) {
    const std::string path = files.path((*names)[i]);
    const std::string_view name = without_query(path);
    const std::string_view compression = name.substr(without_compression(name).size());
    const bool may_be_compressed =
        !compression.empty() && !ends_as(compression, ".gz") && !compression.starts_with(".zst");
    std::string_view what;
    if (may_be_compressed && compression_of(files.open(i)) == Compression::other) {
      what = "compressed, and neither tar, TFRecord nor JSON lines: unpack it";
    } else if (std::ranges::any_of(kEndings, [&](std::string_view one) { return ends_as(name, one); })) {
      what = "of a format that rota does not read: convert it, or wrap what reads it as a source of your own";
    }
    for (const FormatEntry* format : kFormats) {
      if (what.empty() && ends_as(name, format->perhaps[0])) what = format->perhaps[1];
    }
    if (what.empty()) continue;
    throw failure(ErrorCode::unsupported, "open {}: it is {}; {}", files.path(i), what, kAsFiles);
  }
}

std::string_view format_of(const FileList& files) {
  const std::int64_t bad = most_bad(files);
  for (const FormatEntry* format : kFoundFormats) {
    const auto is_one = [&](const FileList& all, std::size_t i) { return is_of(*format, all, i); };
    if (format->begins == nullptr
            ? format->are_named(files)
            : all_of(files, is_one, bad) && !(format->may_be_empty && all_of(files, is_empty))) {
      return format->name;
    }
  }
  refuse_mixed(files);
  refuse_named(files);
  refuse_contents(files);
  return kFilesFormat.name;
}

}  // namespace

bool is_named_as(const FormatEntry& format, std::string_view name) {
  name = without_compression(without_query(name));
  return std::ranges::any_of(format.endings,
                             [&](std::string_view one) { return !one.empty() && ends_as(name, one); });
}

void refuse_arrays(const DatasetFile& file, std::string_view head, std::string_view format) {
  if (!head.starts_with("\x93NUMPY") && !head.starts_with("\x89HDF\r\n\x1a\n")) return;
  throw failure(ErrorCode::invalid_argument,
                "open {} as {}: it begins as an NPY or HDF5 file; leave the format out", file.path(), format);
}
void refuse_foreign(std::string_view path, std::string_view head, std::string_view otherwise) {
  const auto* found =
      std::ranges::find_if(kForeign, [&](const Foreign& one) { return head.starts_with(one.begin); });
  if (found == kForeign.end()) return;
  throw failure(ErrorCode::unsupported, "open {}: it is {}: {}; {}", path, found->what, found->remedy,
                otherwise);
}
void refuse_foreign(const DatasetFile& file, std::string_view otherwise) {
  refuse_foreign(file.path(), decompress_head(file, Compression::none, kForeignHead), otherwise);
}
void require_no_pointers(const FileList& files) {
  if (files.location().is_stored() || files.size() == 0) return;
  try {
    refuse_foreign(files.open(0));
  } catch (const Error& error) {
    if (!may_be_bad(files.context(), files.location(), FileWork::opening, error)) throw;
  }
}

}  // namespace rota::internal

namespace rota {

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

}  // namespace rota
