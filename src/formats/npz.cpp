#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "catalog/serialize.hpp"
#include "formats/formats.hpp"
#include "formats/npy_header.hpp"
#include "formats/records.hpp"
#include "formats/zip_members.hpp"
#include "rota/error.hpp"

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

NpyHeader read_header(const RecordFile& file, const ZipMember& member) {
  ZipReader reader(file, member);
  return read_npy_header(file, member.offset, member.bytes,
                         [&](std::span<std::byte> to) { reader.next(to); });
}

// Those that are named, or all, by name.
Arrays read_arrays(const RecordFile& file, const std::vector<std::string>& wanted) {
  std::vector<ZipMember> members = list_zip(file);
  std::erase_if(members, [](const ZipMember& member) { return !member.name.ends_with(kSuffix); });
  for (ZipMember& member : members) member.name.resize(member.name.size() - kSuffix.size());
  std::sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto twice = std::adjacent_find(members.begin(), members.end(),
                                        [](const auto& a, const auto& b) { return a.name == b.name; });
  if (twice != members.end()) {
    throw file.damage(twice->offset, fmt::format("it has two arrays \"{}\"", twice->name));
  }
  Arrays arrays;
  const auto add = [&](const ZipMember& member) {
    arrays.push_back({.member = member, .header = read_header(file, member)});
  };
  if (wanted.empty()) std::for_each(members.begin(), members.end(), add);
  for (const std::string& name : wanted) {
    const auto found =
        std::find_if(members.begin(), members.end(), [&](const auto& member) { return member.name == name; });
    if (found == members.end()) {
      std::vector<std::string> names(members.size());
      std::transform(members.begin(), members.end(), names.begin(), [](const auto& m) { return m.name; });
      throw Error(ErrorCode::not_found, fmt::format("open {}: no array \"{}\"; it has \"{}\"", file.path(),
                                                    name, fmt::join(names, "\", \"")));
    }
    add(*found);
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
          fmt::format("open {}: array {} is {}, and {} in {}; name those to read with NpzOptions::arrays; "
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
      fields_.push_back({.name = first.member.name,
                         .dtype = first.header.dtype,
                         .shape = is_ragged ? row_shape(first.header) : first.header.shape,
                         .ragged = is_ragged});
    }
  }

  [[nodiscard]] std::string_view name() const override { return "npz"; }
  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }
  [[nodiscard]] RecordIndex index(const RecordFile& file) const override {
    RecordIndex index{.samples = 1, .ranges = {}, .keys = {}};
    for (const Array& array : contents_[file.index]) {
      index.ranges.push_back({.offset = array.member.offset, .bytes = array.header.data_bytes()});
    }
    return index;
  }
  [[nodiscard]] bool has_plain_ranges(const RecordFile& /*file*/) const override { return false; }
  void read(const RecordFile& file, std::size_t field, const ByteRange& /*range*/,
            std::span<std::byte> to) const override {
    const auto& [member, header] = contents_[file.index][field];
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
      fields_.push_back(
          {.name = array.member.name, .dtype = array.header.dtype, .shape = row_shape(array.header)});
    }
    for (std::size_t i = 0; i < contents_.size(); ++i) require_rows(files.path(i), contents_[i]);
  }

  [[nodiscard]] std::string_view name() const override { return "rows of npz"; }
  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }
  [[nodiscard]] RecordIndex index(const RecordFile& file) const override {
    const Arrays& arrays = contents_[file.index];
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
                      "file for a sample (NpzOptions::rows = false)",
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

}  // namespace rota::internal

namespace rota {

void NpzOptions::validate() const { internal::require_distinct("NpzOptions::arrays", arrays); }

std::shared_ptr<const Source> open_npz(const Catalog& catalog, const NpzOptions& options) {
  mpi::together(internal::files_of(catalog).context().nodes.all(), "open files", [&] { options.validate(); });
  internal::FileList files = internal::files_of(catalog).with_sizes();
  const std::string signature = fmt::format("npz {}", options.arrays);
  const auto index = internal::index_open_files(files, signature, [&](const internal::RecordFile& file) {
    return internal::serialize(internal::read_arrays(file, options.arrays));
  });
  std::vector<internal::Arrays> contents(files.size());
  for (std::size_t i = 0; i < contents.size(); ++i)
    contents[i] = internal::deserialize<internal::Arrays>((*index)[i]);
  internal::require_alike(files, contents);
  std::unique_ptr<const internal::RecordFormat> format;
  if (options.rows) {
    format = std::make_unique<internal::NpzRows>(files, std::move(contents));
  } else {
    format = std::make_unique<internal::NpzFiles>(std::move(contents));
  }
  return internal::make_record_source(std::move(files), std::move(format),
                                      fmt::format("{} of {}", options.rows ? "rows" : "files", signature));
}

}  // namespace rota
