#pragma once

// Formats whose samples are ranges of bytes in files: what a format says, and a source over it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catalog/files.hpp"
#include "formats/file_memory.hpp"
#include "rota/source.hpp"

namespace rota::internal {

/// Bytes of a file.
struct ByteRange {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// Where the samples of one file lie: for each sample, one range per field, side by side; and their keys,
/// where the format has some.
struct RecordIndex {
  std::int64_t samples = 0;
  std::vector<ByteRange> ranges;
  NameTable keys;
};

/// Finds and reads the records of a file. *Immutable*, any thread.
class RecordFormat {
 public:
  /// `name` as `open` names it.
  explicit RecordFormat(std::string name, std::vector<Field> fields = {})
      : name_(std::move(name)), fields_(std::move(fields)) {}
  virtual ~RecordFormat() = default;
  RecordFormat(const RecordFormat&) = delete;
  RecordFormat& operator=(const RecordFormat&) = delete;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::vector<Field>& fields() const noexcept { return fields_; }
  /// Whether one more field follows these: the key of each sample.
  [[nodiscard]] virtual bool has_key_field() const { return false; }
  /// How `file` is compressed as a whole; what it decompresses to is then indexed and read in its place.
  /// Throws as `index` does.
  [[nodiscard]] virtual FileEncoding encoding(const DatasetFile& /*file*/) const { return {}; }
  /// What `files` are known by in the fingerprint, if not by their names and sizes.
  [[nodiscard]] virtual std::optional<Fingerprint> identity(const FileList& /*files*/) const {
    return std::nullopt;
  }
  /// Where the records of `file` lie, within it. Throws Error{corrupt} naming file and offset, Error{io}.
  [[nodiscard]] virtual RecordIndex index(const DatasetFile& file) const = 0;
  /// Whether a range of `file` is a field as it lies there: all of it, or a part, is then read without
  /// `read`, and several ranges in one call.
  [[nodiscard]] virtual bool has_plain_ranges(const DatasetFile& /*file*/) const { return true; }
  /// How many bytes behind a range tell whether it is as it was written, where that is all that keeps ranges
  /// from being plain; 0 where it is not.
  [[nodiscard]] virtual std::size_t foot_bytes() const { return 0; }
  /// Throws Error{corrupt} naming file and offset where `foot` does not belong to `bytes`, those of `range`.
  virtual void check(const DatasetFile& /*file*/, const ByteRange& /*range*/,
                     std::span<const std::byte> /*bytes*/, std::span<const std::byte> /*foot*/) const {}
  /// Reads one field of one sample, all of `range`, which `index` gave, where ranges are not plain. Throws as
  /// DatasetFile::read does.
  virtual void read(const DatasetFile& file, std::size_t /*field*/, const ByteRange& range,
                    std::span<std::byte> to) const {
    file.read(range.offset, to);
  }

 protected:
  void add_field(Field field) { fields_.push_back(std::move(field)); }

 private:
  std::string name_;
  std::vector<Field> fields_;
};

/// Of fields, of columns.
template <typename Named>
std::vector<std::string> names_of(const std::vector<Named>& all) {
  std::vector<std::string> names;
  names.reserve(all.size());
  for (const Named& one : all) names.push_back(one.name);
  return names;
}

/// The field of keys.
inline constexpr std::string_view kKeyField = "__key__";
/// Those of files as samples (FilesOptions::keys).
inline constexpr std::string_view kPathField = "path";
inline constexpr std::string_view kFolderField = "folder";

/// The records of `files`, in order; a logical shard is a group of whole files where there are enough.
/// `signature` names all that the index depends on. **Collective** over the context of `files`.
std::shared_ptr<const Source> make_record_source(FileList files, std::unique_ptr<const RecordFormat> format,
                                                 const std::string& signature);

/// Samples of one size at equal distances in files, of one field: rows of arrays, windows of tokens.
struct StridedLayout {
  std::string format;  ///< as `open` names it
  Field field;
  std::uint64_t stride_bytes = 0;  ///< from where a sample begins to where the next does
  /// The samples of a file.
  struct Run {
    std::uint64_t first = 0;  ///< byte of sample 0
    std::int64_t samples = 0;
  };
  std::vector<Run> files;
};

/// The samples of `files`, which must lie inside them. **Collective**, as make_record_source is.
std::shared_ptr<const Source> make_strided_source(FileList files, const StridedLayout& layout);

}  // namespace rota::internal
