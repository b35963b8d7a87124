#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "catalog/serialize.hpp"
#include "formats/formats.hpp"
#include "formats/npy_header.hpp"
#include "formats/records.hpp"
#include "formats/zip.hpp"
#include "rota/error.hpp"
#include "source/unpack_stored.hpp"

namespace rota::internal {
namespace {

constexpr std::string_view kSuffix = ".npy";

/// One array in one file.
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

NpyHeader read_header(const DatasetFile& file, const ZipMember& member) {
  ZipReader reader(file, member);
  return read_npy_header(file, member.offset, member.bytes,
                         [&](std::span<std::byte> to) { reader.next(to); });
}

// Those that are named, or all, by name.
Arrays read_arrays(const DatasetFile& file, const std::vector<std::string>& wanted) {
  std::map<std::string, ZipMember> members;  // by what arrays are called
  for (ZipMember& member : list_zip(file)) {
    if (!member.name.ends_with(kSuffix)) continue;
    member.name.resize(member.name.size() - kSuffix.size());
    if (!members.emplace(member.name, member).second) {
      throw file.damage(member.offset, fmt::format("it has two arrays \"{}\"", member.name));
    }
  }
  Arrays arrays;
  for (const auto& [name, member] : members) {
    if (wanted.empty()) arrays.push_back({member, read_header(file, member)});
  }
  for (const std::string& name : wanted) {
    const auto found = members.find(name);
    if (found == members.end()) {
      std::vector<std::string> names;
      for (const auto& [other, member] : members) names.push_back(other);
      throw Error(ErrorCode::not_found, fmt::format("open {}: no array \"{}\"; it has \"{}\"", file.path(),
                                                    name, fmt::join(names, "\", \"")));
    }
    arrays.push_back({found->second, read_header(file, found->second)});
  }
  if (arrays.empty())
    throw Error(ErrorCode::not_found, fmt::format("open {}: it has no arrays", file.path()));
  return arrays;
}

void require_alike(const FileList& files, const std::vector<Arrays>& contents) {
  const Arrays& first = contents[0];
  for (std::size_t i = 1; i < contents.size(); ++i) {
    const Arrays& other = contents[i];
    for (std::size_t f = 0; f < std::max(first.size(), other.size()); ++f) {
      if (f < first.size() && f < other.size() && first[f].member.name == other[f].member.name &&
          are_alike(first[f].header, other[f].header)) {
        continue;
      }
      const auto tell = [f](const Arrays& arrays) {
        return f < arrays.size()
                   ? fmt::format("\"{}\", {}", arrays[f].member.name, describe(arrays[f].header))
                   : std::string("no other");
      };
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("open {}: array {} is {}, and {} in {}; name those to read with the option arrays; "
                      "only leading extents may differ",
                      files.path(i), f, tell(other), tell(first), files.path(0)));
    }
  }
}

/// Each file is one record.
class NpzFiles final : public RecordFormat {
 public:
  explicit NpzFiles(std::vector<Arrays> contents) : contents_(std::move(contents)) {
    for (std::size_t f = 0; f < contents_[0].size(); ++f) {
      const Array& first = contents_[0][f];
      const bool is_ragged = std::any_of(contents_.begin(), contents_.end(), [&](const Arrays& other) {
        return other[f].header.shape != first.header.shape;
      });
      const auto& header = first.header;
      fields_.push_back(
          header.type.as_stored(first.member.name, is_ragged ? row_shape(header) : header.shape, is_ragged));
    }
  }

  [[nodiscard]] std::string_view name() const override { return "npz"; }
  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }
  [[nodiscard]] RecordIndex index(const DatasetFile& file) const override {
    RecordIndex index{.samples = 1, .ranges = {}, .keys = {}};
    for (const Array& array : contents_[file.number()]) {
      index.ranges.push_back({.offset = array.member.offset, .bytes = array.header.data_bytes()});
    }
    return index;
  }
  [[nodiscard]] bool has_plain_ranges(const DatasetFile& /*file*/) const override { return false; }
  void read(const DatasetFile& file, std::size_t field, const ByteRange& /*range*/,
            std::span<std::byte> to) const override {
    const auto& [member, header] = contents_[file.number()][field];
    ZipReader reader(file, member);
    std::vector<std::byte> before(header.data_at);
    reader.next(before);
    if (header.has_columns()) {
      std::vector<std::byte> columns(to.size());
      reader.next(columns);
      to_c_order(header, columns, to);
    } else {
      reader.next(to);
    }
    reader.require_end();
  }

 private:
  std::vector<Arrays> contents_;
  std::vector<Field> fields_;
};

/// Each row of the arrays is one.
class NpzRows final : public RecordFormat {
 public:
  NpzRows(const FileList& files, std::vector<Arrays> contents) : contents_(std::move(contents)) {
    for (const Array& array : contents_[0]) {
      fields_.push_back(array.header.type.as_stored(array.member.name, row_shape(array.header)));
    }
    for (std::size_t i = 0; i < contents_.size(); ++i) require_rows(files.path(i), contents_[i]);
  }

  [[nodiscard]] std::string_view name() const override { return "rows of npz"; }
  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }
  [[nodiscard]] RecordIndex index(const DatasetFile& file) const override {
    const Arrays& arrays = contents_[file.number()];
    RecordIndex index{.samples = arrays[0].header.shape[0], .ranges = {}, .keys = {}};
    index.ranges.reserve(static_cast<std::size_t>(index.samples) * arrays.size());
    for (std::int64_t row = 0; row < index.samples; ++row) {
      for (std::size_t f = 0; f < arrays.size(); ++f) {
        const std::uint64_t bytes = fields_[f].row_bytes();
        index.ranges.push_back({.offset = arrays[f].member.offset + arrays[f].header.data_at +
                                          static_cast<std::uint64_t>(row) * bytes,
                                .bytes = bytes});
      }
    }
    return index;
  }

 private:
  static void require_rows(const std::string& path, const Arrays& arrays) {
    for (const auto& [member, header] : arrays) {
      const bool has_rows = !header.shape.empty() && header.shape[0] == arrays[0].header.shape[0];
      if (has_rows && !header.has_columns() && !member.is_deflated) continue;
      throw Error(
          ErrorCode::unsupported,
          fmt::format("open {}: array \"{}\", {}, {}; write it so that its rows can be read, or take each "
                      "file for a sample (without the option rows)",
                      path, member.name, describe(header),
                      member.is_deflated     ? "is deflated"
                      : header.has_columns() ? "is in Fortran order, in which rows are scattered"
                                             : "has not as many rows as the first"));
    }
  }

  std::vector<Arrays> contents_;
  std::vector<Field> fields_;
};

}  // namespace

std::shared_ptr<const Source> open_as(const Catalog& catalog, const NpzOptions& options) {
  FileList files = files_of(catalog).with_sizes();
  const std::string signature = fmt::format("npz arrays {}", options.arrays);
  const auto index = index_files(files, signature, [&](DatasetFile& file) {
    file.read_on();
    return serialize(read_arrays(file, options.arrays));
  });
  std::vector<Arrays> contents(files.size());
  for (std::size_t i = 0; i < contents.size(); ++i) contents[i] = deserialize<Arrays>((*index)[i]);
  require_alike(files, contents);
  std::vector<StoredType> types;
  for (const Array& array : contents[0]) types.push_back(array.header.type);
  std::unique_ptr<const RecordFormat> format;
  if (options.rows) {
    format = std::make_unique<NpzRows>(files, std::move(contents));
  } else {
    format = std::make_unique<NpzFiles>(std::move(contents));
  }
  return unpack_stored(
      make_record_source(std::move(files), std::move(format),
                         fmt::format("{} of {}", options.rows ? "rows" : "files", signature)),
      types, "open NPZ files");
}

}  // namespace rota::internal

namespace rota {

void NpzOptions::validate() const { internal::require_distinct("arrays", arrays); }

}  // namespace rota
