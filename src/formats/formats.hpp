#pragma once

// The table of formats, and what they have for one another.

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "catalog/files.hpp"
#include "rota/open.hpp"
#include "rota/source.hpp"

namespace rota::internal {

/// An option by its name, as messages and Python have it; `in` finds it in a Format of those options.
struct FormatOption {
  using Value = std::variant<bool*, std::int64_t*, DType*, std::string*, std::vector<std::string>*,
                             std::vector<TarField>*>;
  const char* name;
  Value (*in)(Format& format);
};
template <auto member>
FormatOption::Value option(Format& format) {
  return [&]<typename Options, typename T>(T Options::*of) -> FormatOption::Value {
    return &(std::get<Options>(format).*of);
  }(member);
}

/// A format: its row of the table, which stands in its own file. Lists end with the first that is empty.
struct FormatEntry {
  std::string_view name;
  /// Of names of its files, compressed or not, in lower case. Such files are of it, or an error, unless the
  /// user names a format.
  std::string_view endings[4] = {};
  /// Whether file i begins as its files do. Throws Error{io}. Null: no bytes tell.
  bool (*begins)(const FileList& files, std::size_t i) = nullptr;
  /// Whether all files are of it, where names tell, and not bytes. Null: neither do.
  bool (*are_named)(const FileList& files) = nullptr;
  bool may_be_empty = false;  ///< a file of no bytes is of it, too, beside others
  bool unpacks = false;       ///< files may be compressed as a whole
  /// Throws what is wrong where `name` has such an ending, and files are not of it. Null: that they are
  /// damaged, or of several formats.
  void (*refuse)(const FileList& files, std::string_view name) = nullptr;
  /// An ending of files that may be of it, as only the user knows, and what an error says of these.
  std::string_view perhaps[2] = {};
  FormatOption options[6] = {};
  /// Default options; of a format without any, an empty text.
  Format (*defaults)() = nullptr;
  /// The samples of `catalog`, with options that are valid and the same on all ranks. **Collective** over
  /// these.
  std::shared_ptr<const Source> (*open)(const Catalog& catalog, const Format& format) = nullptr;
};
/// `row` of a format that `open(catalog, options)` opens.
template <auto open>
constexpr FormatEntry opened_by(FormatEntry row) {
  const auto add = [&]<typename Options>(std::shared_ptr<const Source> (*)(const Catalog&, const Options&)) {
    row.defaults = [] { return Format(Options()); };
    row.open = [](const Catalog& catalog, const Format& format) {
      return open(catalog, std::get<Options>(format));
    };
  };
  add(open);
  return row;
}

extern const FormatEntry kFilesFormat, kHdf5Format, kTfRecordFormat, kTarFormat, kLinesFormat, kNpyFormat,
    kNpzFormat, kTokensFormat, kMegatronFormat, kMdsFormat;
/// All, as `formats` has them.
inline constexpr std::array kFormats{&kFilesFormat,    &kHdf5Format, &kTfRecordFormat, &kTarFormat,
                                     &kLinesFormat,    &kNpyFormat,  &kNpzFormat,      &kTokensFormat,
                                     &kMegatronFormat, &kMdsFormat};
/// Those that a look finds, in its order: one read tells of tar and NPY, where HDF5 is looked for by many.
inline constexpr std::array kFoundFormats{&kMdsFormat,      &kTarFormat,      &kNpyFormat,  &kHdf5Format,
                                          &kTfRecordFormat, &kMegatronFormat, &kLinesFormat};

/// Throws Error{invalid_argument} naming the option that is out of its range.
void validate(const Format& format);
/// Whether a file is named as those of a format, compressed or not.
[[nodiscard]] bool is_named_as(const FormatEntry& format, std::string_view name);

/// Throws Error{invalid_argument} where one of `names`, of fields that `option` lists, is empty or there
/// twice.
void require_distinct(std::string_view option, std::span<const std::string> names);

/// What WebDataset makes of a member's name.
struct TarKey {
  std::string_view sample;  ///< of the name
  std::string extension;    ///< in lower case; empty: it is of no sample
};
[[nodiscard]] TarKey tar_key(std::string_view name);
TarKey tar_key(std::string&& name) = delete;
/// Whether each is one extension, and named so.
[[nodiscard]] bool are_extensions(std::span<const TarField> fields);
/// The same text of the same fields, and only of these.
[[nodiscard]] std::string fields_text(const std::vector<TarField>& fields);

/// The lines of text files. Of JSON lines, none is blank.
std::shared_ptr<const Source> make_lines_source(FileList files);

/// Adds these bytes to a TFRecord file.
void append_tfrecord(std::string& to, std::span<const std::byte> bytes);

/// What to do about a file among others that is not what its name says.
inline constexpr std::string_view kWhatToDo =
    "restore it, or leave it out by a glob, or say which format it is (\"files\": each file is a sample)";

/// Throws Error{invalid_argument} where a file, to be opened as `format`, begins as NPY or HDF5 files do:
/// `head` are its first 8 bytes.
void refuse_arrays(const DatasetFile& file, std::string_view head, std::string_view format);
/// Throws Error{unsupported} where a file begins as what rota does not read, with what to do; `head` are its
/// first bytes, up to `kForeignHead`.
void refuse_foreign(std::string_view path, std::string_view head,
                    std::string_view otherwise = "or name another file");
void refuse_foreign(const DatasetFile& file, std::string_view otherwise = "or name another file");
inline constexpr std::size_t kForeignHead = 24;
/// The same of the first file, of a file system: any bytes are lines, and so are pointers of Git LFS.
void require_no_pointers(const FileList& files);

}  // namespace rota::internal
