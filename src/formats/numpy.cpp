#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "catalog/open_context.hpp"
#include "core/failure.hpp"
#include "formats/formats.hpp"
#include "formats/numpy.hpp"
#include "formats/records.hpp"
#include "source/stored_type.hpp"

namespace rota::internal {
namespace {

constexpr std::string_view kSuffix = ".npy";
constexpr std::string_view kNpyTask = "open NPY files";

/// One array in one file: a member of an NPZ file, or all of an NPY file.
struct Array {
  ZipMember member;
  NpyHeader header;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(member, header);
  }
};
/// The arrays of one file, one per field.
using Arrays = std::vector<Array>;

Array read_array(const DatasetFile& file, const ZipMember& member) {
  ZipReader reader(file, member);
  return {member, read_npy_header(file, member.offset, member.bytes,
                                  [&](std::span<std::byte> to) { reader.next(to); })};
}

Arrays read_npy(DatasetFile& file) {
  file.read_on();
  return {read_array(file, {.name = "data", .stored_bytes = file.bytes(), .bytes = file.bytes()})};
}

// Those that are named, or all, by name.
Arrays read_npz(DatasetFile& file, const std::vector<std::string>& wanted) {
  file.read_on();
  std::map<std::string, ZipMember> members;  // by what arrays are called
  for (ZipMember& member : list_zip(file)) {
    if (!member.name.ends_with(kSuffix)) continue;
    member.name.resize(member.name.size() - kSuffix.size());
    if (!members.emplace(member.name, member).second) {
      throw file.damage(member.offset, "it has two arrays \"{}\"", member.name);
    }
  }
  std::vector<std::string> names;
  names.reserve(members.size());
  for (const auto& [name, member] : members) names.push_back(name);
  Arrays arrays;
  for (const std::string& name : wanted.empty() ? names : wanted) {
    const auto found = members.find(name);
    if (found == members.end()) {
      throw failure(ErrorCode::not_found, "open {}: no array \"{}\"; it has \"{}\"", file.path(), name,
                    fmt::join(names, "\", \""));
    }
    arrays.push_back(read_array(file, found->second));
  }
  if (arrays.empty()) throw failure(ErrorCode::not_found, "open {}: it has no arrays", file.path());
  return arrays;
}

std::string describe(const Arrays& arrays, std::size_t f) {
  return f < arrays.size() ? fmt::format("\"{}\", {}", arrays[f].member.name, describe(arrays[f].header))
                           : "no other";
}

void require_alike(const FileList& files, const std::vector<Arrays>& contents, std::string_view advice) {
  const Arrays& first = contents[0];
  for (std::size_t i = 1; i < contents.size(); ++i) {
    const Arrays& other = contents[i];
    for (std::size_t f = 0; f < std::max(first.size(), other.size()); ++f) {
      if (f < first.size() && f < other.size() && first[f].member.name == other[f].member.name &&
          are_alike(first[f].header, other[f].header)) {
        continue;
      }
      const std::string here = describe(other, f);
      const std::string there = describe(first, f);
      throw failure(ErrorCode::invalid_argument,
                    "open {}: array {} is {}, and {} in {}{}; {}only leading extents may differ",
                    files.path(i), f, here, there, files.path(0), here == there ? ", stored otherwise" : "",
                    advice);
    }
  }
}

void require_rows(const FileList& files, const std::vector<Arrays>& contents, std::string_view option) {
  for (std::size_t i = 0; i < contents.size(); ++i) {
    for (std::size_t f = 0; f < contents[i].size(); ++f) {
      const auto& [member, header] = contents[i][f];
      if (header.type != contents[0][f].header.type) {
        throw failure(ErrorCode::unsupported,
                      "open {}: array \"{}\" is {}, and {} in {}: write texts as wide in all files "
                      "(numpy: x.astype(\"S32\")), or take each file for a sample ({})",
                      files.path(i), member.name, describe(header), describe(contents[0][f].header),
                      files.path(0), option);
      }
      const std::vector<std::int64_t>& first = contents[i][0].header.shape;
      const bool has_rows = !header.shape.empty() && header.shape[0] == first[0];
      if (has_rows && !header.has_columns() && !member.is_deflated) continue;
      throw failure(ErrorCode::unsupported,
                    "open {}: array \"{}\", {}, {}; write it so that its rows can be read, or take each file "
                    "for a sample ({})",
                    files.path(i), member.name, describe(header),
                    member.is_deflated     ? "is deflated"
                    : header.has_columns() ? "is in Fortran order, in which rows are scattered"
                    : header.shape.empty() ? "has no rows"
                                           : "has not as many rows as the first",
                    option);
    }
  }
}

/// Each file is one record.
class ArrayFiles final : public RecordFormat {
 public:
  // Of these types, which texts in some files are narrower than.
  ArrayFiles(std::vector<Arrays> contents, std::vector<StoredType> types, bool is_npy)
      : RecordFormat(is_npy ? "npy files" : "npz"),
        contents_(std::move(contents)),
        types_(std::move(types)),
        is_npy_(is_npy) {
    for (std::size_t f = 0; f < types_.size(); ++f) {
      const NpyHeader& header = contents_[0][f].header;
      const bool is_ragged = std::ranges::any_of(
          contents_, [&](const Arrays& other) { return other[f].header.shape != header.shape; });
      add_field(types_[f].as_stored(contents_[0][f].member.name, is_ragged ? row_shape(header) : header.shape,
                                    is_ragged));
    }
  }

  [[nodiscard]] RecordIndex index(const DatasetFile& file) const override {
    RecordIndex index{.samples = 1, .ranges = {}, .keys = {}};
    for (std::size_t f = 0; f < types_.size(); ++f) {
      const auto& [member, header] = contents_[file.number()][f];
      index.ranges.push_back(
          {.offset = is_npy_ ? header.data_at : member.offset,
           .bytes = header.data_bytes() / std::max<std::size_t>(header.type.bytes, 1) * types_[f].bytes});
    }
    return index;
  }
  [[nodiscard]] bool has_plain_ranges(const DatasetFile& file) const override {
    const NpyHeader& header = contents_[file.number()][0].header;
    return is_npy_ && !header.has_columns() && header.type == types_[0];
  }
  void read(const DatasetFile& file, std::size_t field, const ByteRange& range,
            std::span<std::byte> to) const override {
    const auto& [member, header] = contents_[file.number()][field];
    std::ranges::fill(to.subspan(header.data_bytes()), std::byte{0});  // behind the only text
    to = to.first(header.data_bytes());
    std::vector<std::byte> columns(header.has_columns() ? to.size() : 0);
    const std::span<std::byte> stored = header.has_columns() ? columns : to;
    if (is_npy_) {
      file.read(range.offset, stored);
    } else {
      ZipReader reader(file, member);
      std::vector<std::byte> before(header.data_at);
      reader.next(before);
      reader.next(stored);
      reader.require_end();
    }
    if (header.has_columns()) to_c_order(header, columns, to);
  }

 private:
  std::vector<Arrays> contents_;  // of each file
  std::vector<StoredType> types_;
  bool is_npy_;
};

/// Each row of the arrays is one.
class NpzRows final : public RecordFormat {
 public:
  explicit NpzRows(std::vector<Arrays> contents)
      : RecordFormat("rows of npz"), contents_(std::move(contents)) {
    for (const auto& [member, header] : contents_[0])
      add_field(header.type.as_stored(member.name, row_shape(header)));
  }

  [[nodiscard]] RecordIndex index(const DatasetFile& file) const override {
    const Arrays& arrays = contents_[file.number()];
    RecordIndex index{.samples = arrays[0].header.shape[0], .ranges = {}, .keys = {}};
    index.ranges.reserve(static_cast<std::size_t>(index.samples) * arrays.size());
    for (std::int64_t row = 0; row < index.samples; ++row) {
      for (std::size_t f = 0; f < arrays.size(); ++f) {
        const std::uint64_t bytes = fields()[f].row_bytes();
        index.ranges.push_back({.offset = arrays[f].member.offset + arrays[f].header.data_at +
                                          static_cast<std::uint64_t>(row) * bytes,
                                .bytes = bytes});
      }
    }
    return index;
  }

 private:
  std::vector<Arrays> contents_;
};

StridedLayout npy_rows(const std::vector<Arrays>& contents) {
  const NpyHeader& first = contents[0][0].header;
  StridedLayout layout{.format = "npy", .field = first.type.as_stored("data", row_shape(first)), .files = {}};
  layout.stride_bytes = layout.field.row_bytes();
  for (const Arrays& arrays : contents)
    layout.files.push_back({.first = arrays[0].header.data_at, .samples = arrays[0].header.shape[0]});
  return layout;
}

// What `format` has found is known by the numbers of files, of which none may be passed over any more. Where
// texts are, the index depends on how wide they are in all files.
std::shared_ptr<const Source> make_source(FileList files, std::unique_ptr<const RecordFormat> format,
                                          std::string signature) {
  const std::size_t size = files.size();
  for (const Field& field : format->fields()) signature += fmt::format(" {}", field.row_bytes());
  auto source = make_record_source(std::move(files), std::move(format), signature);
  if (source->part_sizes().size() == size) return source;
  throw failure(ErrorCode::io,
                "open NumPy's files: some vanished while they were looked into; open them again");
}

// Of each array; of texts, the widest of all files.
std::vector<StoredType> types_of(const std::vector<Arrays>& contents) {
  std::vector<StoredType> types;
  for (std::size_t f = 0; f < contents[0].size(); ++f) {
    const auto widest = std::ranges::max_element(
        contents, {}, [&](const Arrays& arrays) { return arrays[f].header.type.bytes; });
    types.push_back((*widest)[f].header.type);
  }
  return types;
}

bool is_npy(const FileList& files, std::size_t i) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  return decompress_head(files.open(i), Compression::none, kMagic.size()) == kMagic;
}

std::shared_ptr<const Source> open_npy(const Catalog& catalog, const NpyOptions& options) {
  FileList files = files_of(catalog).with_sizes();
  auto contents = look_into_files<Arrays>(files, "npy array", read_npy);
  require_alike(files, contents, "");
  const auto types = types_of(contents);
  if (options.file_is_sample) {
    auto format = std::make_unique<ArrayFiles>(std::move(contents), types, true);
    return decode_stored(make_source(std::move(files), std::move(format), "npy files"), types, kNpyTask);
  }
  require_rows(files, contents, "the option file_is_sample");
  return decode_stored(make_strided_source(std::move(files), npy_rows(contents)), types, kNpyTask);
}

std::shared_ptr<const Source> open_npz(const Catalog& catalog, const NpzOptions& options) {
  FileList files = files_of(catalog).with_sizes();
  const std::string signature = fmt::format("npz arrays {}", options.arrays);
  auto contents = look_into_files<Arrays>(files, signature,
                                          [&](DatasetFile& file) { return read_npz(file, options.arrays); });
  require_alike(files, contents, "name those to read with the option arrays; ");
  if (options.rows) require_rows(files, contents, "without the option rows");
  const auto types = types_of(contents);
  auto format = options.rows ? std::unique_ptr<const RecordFormat>(new NpzRows(std::move(contents)))
                             : std::make_unique<ArrayFiles>(std::move(contents), types, false);
  return decode_stored(make_source(std::move(files), std::move(format),
                                   fmt::format("{} of {}", options.rows ? "rows" : "files", signature)),
                       types, "open NPZ files");
}

}  // namespace

constinit const FormatEntry kNpyFormat =
    opened_by<open_npy>({.name = "npy",
                         .endings = {".npy"},
                         .begins = is_npy,
                         .options = {{"file_is_sample", option<&NpyOptions::file_is_sample>}}});
constinit const FormatEntry kNpzFormat = opened_by<open_npz>(
    {.name = "npz",
     .perhaps = {".npz",
                 "arrays of numpy, perhaps: say so (\"npz\", whose option rows says whether a row is a "
                 "sample, or a file)"},
     .options = {{"arrays", option<&NpzOptions::arrays>}, {"rows", option<&NpzOptions::rows>}}});

}  // namespace rota::internal

namespace rota {

void NpzOptions::validate() const { internal::require_distinct("arrays", arrays); }

}  // namespace rota
