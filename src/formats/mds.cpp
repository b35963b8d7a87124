#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "catalog/open_context.hpp"
#include "core/bytes.hpp"
#include "core/failure.hpp"
#include "formats/formats.hpp"
#include "formats/mds_columns.hpp"
#include "formats/mds_hashes.hpp"
#include "formats/records.hpp"
#include "source/field_check.hpp"

namespace rota::internal {
namespace {

using nlohmann::json;

constexpr std::int64_t kMdsVersion = 2;
constexpr std::uint64_t kMostIndexBytes = std::uint64_t{1} << 30;
// Places in a shard are numbers of 32 bits.
constexpr std::uint64_t kMostDecompressed = std::uint64_t{1} << 32;

/// A shard's file that is compressed as a whole.
struct CompressedFile {
  std::string name;
  std::uint64_t bytes = 0;
  MdsHashes hashes;
  std::string compression;  ///< as index.json has it
};

/// What index.json says of a shard.
struct Shard {
  std::string name;
  std::uint64_t bytes = 0;
  std::int64_t samples = 0;
  MdsHashes hashes;
  std::optional<CompressedFile> compressed;  ///< read in place of the file `name`
};

struct Index {
  std::vector<Shard> shards;
  std::vector<MdsColumn> columns;
};

// Below the directory of index.json, and nowhere else.
bool is_inside(const std::string& name) {
  const std::filesystem::path path(name);
  return !path.empty() && path.is_relative() && name.find('\0') == std::string::npos &&
         std::find(path.begin(), path.end(), "..") == path.end();
}

// Of a column, in bytes; nothing where it differs.
std::optional<std::uint32_t> read_size(const json& size, const std::string& where) {
  if (size.is_null()) return std::nullopt;
  const auto bytes = size.get<std::uint64_t>();
  if (bytes <= std::numeric_limits<std::uint32_t>::max()) return static_cast<std::uint32_t>(bytes);
  throw failure(ErrorCode::corrupt, "{}: a column of {} bytes cannot be", where, bytes);
}

std::vector<MdsColumn> read_columns(const json& shard, const std::string& where) {
  const auto& names = shard.at("column_names");
  const auto& encodings = shard.at("column_encodings");
  const auto& sizes = shard.at("column_sizes");
  if (names.size() != encodings.size() || names.size() != sizes.size() || names.empty()) {
    throw failure(ErrorCode::corrupt, "{}: it has {} columns, {} encodings and {} sizes", where, names.size(),
                  encodings.size(), sizes.size());
  }
  std::vector<MdsColumn> columns;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto name = names[i].get<std::string>();
    if (std::ranges::find(columns, name, &MdsColumn::name) != columns.end()) {
      throw failure(ErrorCode::corrupt, "{}: it has two columns \"{}\"", where, name);
    }
    columns.push_back(
        make_mds_column(name, encodings[i].get<std::string>(), read_size(sizes[i], where), where));
  }
  return columns;
}

// Of ALGORITHM or ALGORITHM:LEVEL.
std::optional<Compression> find_compression(std::string_view text) {
  const std::string_view algorithm = text.substr(0, text.find(':'));
  if (algorithm == "zstd") return Compression::zstd;
  if (algorithm == "gz") return Compression::gzip;
  return algorithm == "bz2" ? std::optional(Compression::other) : std::nullopt;
}

MdsHashes read_hashes(const json& file) {
  MdsHashes hashes;
  const auto found = file.find("hashes");
  if (found == file.end() || !found->is_object()) return hashes;
  for (const auto& [function, digits] : found->items()) {
    if (digits.is_string()) hashes.emplace(function, digits.get<std::string>());
  }
  return hashes;
}

std::optional<CompressedFile> read_compressed(const json& shard) {
  const auto zip = shard.find("zip_data");
  if (zip == shard.end() || zip->is_null()) return std::nullopt;
  const auto compression = shard.find("compression");
  const bool is_named = compression != shard.end() && !compression->is_null();
  return CompressedFile{.name = zip->at("basename").get<std::string>(),
                        .bytes = zip->at("bytes").get<std::uint64_t>(),
                        .hashes = read_hashes(*zip),
                        .compression = is_named ? compression->get<std::string>() : "nothing known"};
}

// Of the index, or of a shard.
void require_version(const json& versioned, const std::string& where) {
  const auto version = versioned.at("version").get<std::int64_t>();
  if (version == kMdsVersion) return;
  throw failure(ErrorCode::unsupported, "{}: version {} of MDS; rota knows {}", where, version, kMdsVersion);
}

Shard read_shard(const json& shard, const std::string& where) {
  if (const auto format = shard.at("format").get<std::string>(); format != "mds") {
    throw failure(ErrorCode::unsupported, "{}: its format is {}, and not mds", where, format);
  }
  require_version(shard, where);
  const json& raw = shard.at("raw_data");
  Shard result{.name = raw.at("basename").get<std::string>(),
               .bytes = raw.at("bytes").get<std::uint64_t>(),
               .samples = shard.at("samples").get<std::int64_t>(),
               .hashes = read_hashes(raw),
               .compressed = read_compressed(shard)};
  if (!is_inside(result.name) || result.samples < 0) {
    throw failure(ErrorCode::corrupt, "{}: a file \"{}\" with {} samples cannot be", where, result.name,
                  result.samples);
  }
  if (result.compressed && (!is_inside(result.compressed->name) || result.bytes > kMostDecompressed)) {
    throw failure(ErrorCode::corrupt, "{}: a file \"{}\" that unpacks to {} bytes cannot be", where,
                  result.compressed->name, result.bytes);
  }
  return result;
}

std::string read_text(const FileList& files) {
  const DatasetFile file = files.open(std::size_t{0});
  if (file.bytes() > kMostIndexBytes) throw file.damage(0, "it is too large for an index of shards");
  std::string text(file.bytes(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

Index read_index(const std::string& text, const std::string& path) {
  Index index;
  try {
    const json root = json::parse(text);
    require_version(root, fmt::format("open {}", path));
    for (const json& shard : root.at("shards")) {
      const std::string where = fmt::format("open {}: shard {}", path, index.shards.size());
      index.shards.push_back(read_shard(shard, where));
      std::vector<MdsColumn> columns = read_columns(shard, where);
      if (index.columns.empty())
        index.columns = std::move(columns);
      else if (index.columns != columns) {
        throw failure(ErrorCode::invalid_argument, "{}: its columns are not those of the first", where);
      }
    }
  } catch (const json::exception& error) {
    throw failure(ErrorCode::corrupt, "open {}: it is no index of MDS shards ({})", path, error.what());
  }
  if (index.shards.empty()) throw failure(ErrorCode::not_found, "open {}: it names no shards", path);
  return index;
}

// A shard that was decompressed beside needs no decompressing.
void choose_files(Index& index, const FileList& index_file) {
  const std::string path = index_file.path(0);
  const std::filesystem::path directory = std::filesystem::path(path).parent_path();
  const auto is_compressed = made_on_first_rank(index_file.context(), "look for shards", [&] {
    std::vector<std::uint8_t> compressed;
    for (const Shard& shard : index.shards) {
      std::error_code error;
      compressed.push_back(
          shard.compressed && !std::filesystem::is_regular_file(directory / shard.name, error) ? 1 : 0);
      if (compressed.back() == 0 || find_compression(shard.compressed->compression)) continue;
      throw failure(ErrorCode::unsupported,
                    "open {}: shard {}: {} is compressed by {}, and rota unpacks zstd, gz and bz2; write it "
                    "so or without compression, or unpack it beside, as {}",
                    path, compressed.size() - 1, shard.compressed->name, shard.compressed->compression,
                    shard.name);
    }
    return compressed;
  });
  for (std::size_t i = 0; i < is_compressed.size(); ++i) {
    if (is_compressed[i] == 0) index.shards[i].compressed.reset();
  }
}

class MdsFormat final : public RecordFormat {
 public:
  MdsFormat(Index index, std::vector<ChosenField> chosen, bool verify)
      : RecordFormat("mds"),
        index_(std::move(index)),
        chosen_(std::move(chosen)),
        verify_(verify),
        has_head_(index_.columns.size()) {
    for (const ChosenField& one : chosen_) {
      add_field(one.field);
      if (one.is_head) has_head_[one.column] = true;
    }
    for (const MdsColumn& column : index_.columns) head_bytes_ += column.size ? 0 : sizeof(std::uint32_t);
  }

  [[nodiscard]] FileEncoding encoding(const DatasetFile& file) const override {
    const Shard& shard = index_.shards[file.number()];
    const std::uint64_t expected = shard.compressed ? shard.compressed->bytes : shard.bytes;
    if (file.bytes() != expected) {
      throw file.damage(0, "it has {} bytes, and index.json says {}", file.bytes(), expected);
    }
    if (verify_) verify_mds_hash(file, shard.compressed ? shard.compressed->hashes : shard.hashes);
    return {.compression = shard.compressed ? find_compression(shard.compressed->compression).value()
                                            : Compression::none,
            .raw_bytes = static_cast<std::int64_t>(shard.bytes)};
  }

  // As if none were compressed: whether they are may change without the samples changing.
  [[nodiscard]] std::optional<Fingerprint> identity(const FileList& files) const override {
    FingerprintBuilder builder;
    std::size_t i = 0;
    const auto names = files.read_names();
    for (const Shard& shard : index_.shards) {  // in order, but for those that were passed over
      const std::string& name = shard.compressed ? shard.compressed->name : shard.name;
      if (i == files.size() || (*names)[i] != name) continue;
      builder.add(shard.name).add(static_cast<std::int64_t>(shard.bytes));
      ++i;
    }
    return builder.finish();
  }

  // A shard: how many samples; where each begins, and the last ends; a copy of its part of index.json;
  // samples.
  [[nodiscard]] RecordIndex index(const DatasetFile& file) const override {
    const std::vector<std::uint32_t> offsets = read_offsets(file);
    RecordIndex result{.samples = std::ssize(offsets) - 1, .ranges = {}, .keys = {}};
    std::vector<ByteRange> columns;
    for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
      find_columns(file, {.offset = offsets[i], .bytes = offsets[i + 1] - offsets[i]}, columns);
      for (const ChosenField& one : chosen_) {
        const MdsColumn& column = index_.columns[one.column];
        const ByteRange& range = columns[one.column];
        if (!column.has_shape && !column.is_list) {
          result.ranges.push_back(range);
          continue;
        }
        const MdsParts parts = split_mds_value(file, column, range);
        if (parts.count != 1 && !has_head_[one.column]) throw no_line(file, column, range);
        result.ranges.push_back(one.is_head ? parts.head : parts.values);
      }
    }
    return result;
  }

 private:
  // Of an array whose shape nobody asked for.
  static Error no_line(const DatasetFile& file, const MdsColumn& column, const ByteRange& range) {
    return failure(ErrorCode::unsupported,
                   "read {}: byte {}: an array of column \"{}\" has several dimensions; give the shape in "
                   "the encoding, as in {}:3,224,224, or read \"{}{}\", too (the option columns)",
                   file.path(), range.offset, column.name, column.encoding, column.name, kShape);
  }

  [[nodiscard]] std::vector<std::uint32_t> read_offsets(const DatasetFile& file) const {
    const Shard& shard = index_.shards[file.number()];
    std::uint32_t samples = 0;
    if (shard.bytes < sizeof(samples)) throw file.damage(0, "it is no shard");
    file.read(0, std::as_writable_bytes(std::span(&samples, 1)));
    if (samples != static_cast<std::uint64_t>(shard.samples) ||
        shard.bytes / sizeof(samples) < samples + 2ULL) {
      throw file.damage(0, "it says that it has {} samples, and index.json {}", samples, shard.samples);
    }
    std::vector<std::uint32_t> offsets(samples + std::size_t{1});
    file.read(sizeof(samples), std::as_writable_bytes(std::span(offsets)));
    const auto fall = std::adjacent_find(offsets.begin(), offsets.end(), std::greater<>());
    if (fall != offsets.end() || offsets.back() > shard.bytes) {
      throw file.damage(sizeof(samples), "its samples are not one behind the other inside of it");
    }
    return offsets;
  }

  // A sample: the sizes of columns that differ, then the columns.
  void find_columns(const DatasetFile& file, ByteRange sample, std::vector<ByteRange>& columns) const {
    const auto head = file.at(sample.offset, head_bytes_);
    if (sample.bytes < head_bytes_ || head.size() < head_bytes_) {
      throw file.damage(sample.offset, "a sample is too short for its columns");
    }
    columns.clear();
    ByteReader sizes(head, "");
    std::uint64_t at = sample.offset + head_bytes_;
    for (const MdsColumn& column : index_.columns) {
      const std::uint32_t size = column.size ? *column.size : sizes.next<std::uint32_t>();
      columns.push_back({.offset = at, .bytes = size});
      at += size;
    }
    if (at == sample.offset + sample.bytes) return;
    throw file.damage(sample.offset, "the columns of a sample take {} bytes, and the sample {}",
                      at - sample.offset, sample.bytes);
  }

  Index index_;
  std::vector<ChosenField> chosen_;
  bool verify_;
  std::vector<bool> has_head_;  // of columns: a field tells what stands before the values
  std::size_t head_bytes_ = 0;
};

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

// Names the datasets of MDS which are in folders of this one.
void refuse_splits(const FileList& files) {
  constexpr std::string_view kEnd = "/index.json";
  std::vector<std::string> folders;
  const auto names = files.read_names();
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string name = (*names)[i];
    if (name.ends_with(kEnd)) folders.push_back(name.substr(0, name.size() - kEnd.size()));
  }
  if (folders.empty()) return;
  throw failure(
      ErrorCode::invalid_argument,
      "open {}: there are datasets of MDS in its folders {}: open one of them, as {}{}, or join them",
      files.shown_directory(), fmt::join(folders, ", "), files.directory(), folders[0]);
}

void refuse_without_index(const FileList& files, std::string_view name) {
  refuse_splits(files);
  throw failure(ErrorCode::corrupt,
                "open {}: {} is a shard, and there is no index.json: open the directory of all, or the "
                "shards are not all written; {}",
                files.shown_directory(), name, kWhatToDo);
}

std::shared_ptr<const Source> open_mds(const Catalog& catalog, const MdsOptions& options) {
  FileList index_file = files_of(catalog).only([](std::string_view name) { return name == "index.json"; });
  const std::string merged = "index.json";  // of the indices in folders
  for (std::size_t i = 0; index_file.size() > 1 && i < index_file.size(); ++i) {
    if ((*index_file.read_names())[i] == merged) index_file = index_file.beside({&merged, 1});
  }
  const std::string path = index_file.path(0);
  const Communicator& all = index_file.context().nodes.all();
  const std::string text = ranks::on_first_rank(all, "read the index of shards", [&] {
    refuse_splits(index_file);
    if (index_file.size() == 1) return read_text(index_file);
    throw failure(ErrorCode::invalid_argument, "open {}: it is one of {} files, and MDS has one index.json",
                  path, index_file.size());
  });
  Index index = read_index(text, path);
  const std::vector<ChosenField> chosen = choose_fields(index.columns, options.columns, path);
  choose_files(index, index_file);
  std::vector<std::string> names;
  for (const Shard& shard : index.shards)
    names.push_back(shard.compressed ? shard.compressed->name : shard.name);
  FileList shards = index_file.beside(names);
  auto format = std::make_unique<MdsFormat>(std::move(index), chosen, options.verify);
  const std::string signature =
      fmt::format("mds {} of {}{}", names_of(format->fields()),
                  to_string(FingerprintBuilder().add(text).finish()), options.verify ? ", verified" : "");
  check_fields(format->fields(), "open " + path, "the index", ErrorCode::unsupported);
  return make_record_source(std::move(shards), std::move(format), signature);
}

}  // namespace

constinit const FormatEntry kMdsFormat = opened_by<open_mds>(
    {.name = "mds",
     .endings = {".mds"},
     .are_named = is_mds,
     .unpacks = true,
     .refuse = refuse_without_index,
     .options = {{"columns", option<&MdsOptions::columns>}, {"verify", option<&MdsOptions::verify>}}});

}  // namespace rota::internal

namespace rota {

void MdsOptions::validate() const { internal::require_distinct("columns", columns); }

}  // namespace rota
