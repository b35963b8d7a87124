#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <unordered_set>
#include <utility>

#include "catalog/bad_files.hpp"
#include "core/failure.hpp"
#include "core/owned.hpp"
#include "formats/archive_input.hpp"
#include "formats/formats.hpp"
#include "formats/records.hpp"

namespace rota::internal {
namespace {

// What the head of a member has, and where.
constexpr std::string_view kUstar = "ustar";
constexpr std::size_t kUstarAt = 257;

/// A regular file in a tar file.
struct Member {
  std::string name;
  ByteRange range;
};

/// The members of one tar file, by libarchive, which is asked for heads and never for data. *One thread.*
///
/// The end is two blocks of zeros, without which a file that was cut between two members would pass for
/// whole. As GNU tar does, it passes over what follows them; but a second archive is an error. One block of
/// zeros at the end of the file will do, for no member can be missing then; GNU tar warns where something
/// follows that, and leaves it unread, and here it is an error.
class TarMembers {
 public:
  TarMembers(const DatasetFile& file, bool allow_missing_end)
      : file_(file), allow_missing_end_(allow_missing_end), archive_(::archive_read_new()) {
    if (archive_ == nullptr) throw std::bad_alloc();
    require(::archive_read_support_format_tar(archive_.get()));
    require(::archive_read_open2(archive_.get(), &input_, nullptr, ArchiveInput::read, ArchiveInput::skip,
                                 nullptr));
  }

  /// The next regular file; false at the end.
  bool next(Member& member) {
    for (;;) {
      if (has_entry_) require(::archive_read_data_skip(archive_.get()));
      const std::uint64_t head = position();
      archive_entry* entry = nullptr;
      const int result = ::archive_read_next_header(archive_.get(), &entry);
      if (input_.error != nullptr) std::rethrow_exception(input_.error);
      if (result == ARCHIVE_EOF) {
        require_end(head);
        return false;
      }
      has_entry_ = true;
      // A name that is not in UTF-8 is still a name. Other warnings are of what is malformed.
      if (result != ARCHIVE_WARN || ::archive_errno(archive_.get()) == kMalformed) require(result);
      member.name = name_of(entry);
      const bool is_link =
          ::archive_entry_hardlink(entry) != nullptr || ::archive_entry_filetype(entry) == AE_IFLNK;
      if (is_link && !tar_key(member.name).extension.empty()) {
        throw failure(ErrorCode::unsupported,
                      "read {}: byte {}: \"{}\" is a link and has no bytes of its own; make the tar file "
                      "with --dereference --hard-dereference",
                      file_.path(), head, member.name);
      }
      if (is_link || ::archive_entry_filetype(entry) != AE_IFREG) continue;
      if (::archive_entry_sparse_reset(entry) > 0) {
        throw failure(
            ErrorCode::unsupported,
            "read {}: byte {}: \"{}\" is stored as a sparse file; make the tar file without --sparse",
            file_.path(), head, member.name);
      }
      member.range = {.offset = position(), .bytes = static_cast<std::uint64_t>(::archive_entry_size(entry))};
      const std::uint64_t end = file_.bytes();
      if (member.range.offset > end || member.range.bytes > end - member.range.offset) {
        throw file_.damage(
            head,
            "\"{}\" has {} bytes, and the file ends {} bytes after its head: it was cut short, or is damaged",
            member.name, member.range.bytes, end - std::min(end, member.range.offset));
      }
      return true;
    }
  }

 private:
  static constexpr std::size_t kBlockBytes = 1 << 14;
  static constexpr std::uint64_t kTarBlock = 512;
  static constexpr int kMalformed = -1;  // libarchive's own error number, which has no public name

  // `head` is where the next one would be. libarchive has read on: through the one or two blocks of zeros
  // that it took for the end, or to the end of the file.
  void require_end(std::uint64_t head) const {
    const std::uint64_t end = position();
    if (end == file_.bytes() && allow_missing_end_) return;
    if (end < head + kTarBlock || !has_zeros(end - kTarBlock, end)) {
      throw file_.damage(
          end,
          "the file ends here, without the two blocks of zeros that end a tar file: it was cut short; "
          "restore it, or set the option allow_missing_end where its writer leaves them out");
    }
    if (end >= head + 2 * kTarBlock && has_zeros(end - 2 * kTarBlock, end - kTarBlock)) {
      return refuse_second(end);
    }
    if (has_zeros(end, std::min(end + kTarBlock, file_.bytes()))) return;
    throw file_.damage(
        end - kTarBlock,
        "one block of zeros stands before something else, and two end a tar file: it is damaged; restore it");
  }

  // Of an archive behind the end, as `cat` joins them, nothing would be read.
  void refuse_second(std::uint64_t end) const {
    while (end + kTarBlock <= file_.bytes() && has_zeros(end, end + kTarBlock)) end += kTarBlock;
    if (end + kTarBlock > file_.bytes()) return;
    std::array<char, kUstar.size()> magic{};
    file_.read(end + kUstarAt, std::as_writable_bytes(std::span(magic)));
    if (std::string_view(magic.data(), magic.size()) != kUstar) return;
    throw file_.damage(end,
                       "another archive begins here, behind the end of the first, as where files were joined "
                       "by cat: none of its samples would be read; keep them in files of their own");
  }

  // Of bytes [first, last), at most a block.
  [[nodiscard]] bool has_zeros(std::uint64_t first, std::uint64_t last) const {
    std::array<std::byte, kTarBlock> bytes{};
    file_.read(first, std::span(bytes).first(last - first));
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
  }

  // In the file, of what libarchive has taken.
  [[nodiscard]] std::uint64_t position() const {
    return static_cast<std::uint64_t>(::archive_filter_bytes(archive_.get(), 0));
  }

  static std::string name_of(archive_entry* entry) {
    const char* name = ::archive_entry_pathname(entry);
    if (name == nullptr) name = ::archive_entry_pathname_utf8(entry);
    return name == nullptr ? std::string() : name;
  }

  void require(int result) const {
    if (input_.error != nullptr) std::rethrow_exception(input_.error);
    if (result == ARCHIVE_OK) return;
    const char* text = ::archive_error_string(archive_.get());
    throw file_.damage(position(), "it is no tar file, or is damaged ({})", text == nullptr ? "?" : text);
  }

  const DatasetFile& file_;
  bool allow_missing_end_;
  bool has_entry_ = false;  // whose data is to be skipped
  ArchiveInput input_{.file = file_, .block = std::vector<std::byte>(kBlockBytes)};
  std::unique_ptr<archive, FreeBy<::archive_read_free>> archive_;
};

class TarFormat final : public RecordFormat {
 public:
  TarFormat(const std::vector<TarField>& named, const TarOptions& options)
      : RecordFormat("tar"),
        is_open_(options.fields.empty()),
        keys_(options.keys),
        allow_missing_end_(options.allow_missing_end) {
    if (!are_extensions(named)) joined_ = named;
    for (const TarField& field : named) {
      for (const std::string& extension : field.extensions) numbers_.emplace(extension, fields().size());
      add_field({.name = field.name, .ragged = true});
    }
  }

  [[nodiscard]] bool has_key_field() const override { return keys_; }

  [[nodiscard]] FileEncoding encoding(const DatasetFile& file) const override {
    return {.compression = compression_of(file)};
  }

  [[nodiscard]] std::optional<Fingerprint> identity(const FileList& files) const override {
    if (joined_.empty()) return std::nullopt;
    FingerprintBuilder builder;
    builder.add(to_string(files.fingerprint()));
    for (auto [name, extensions] : joined_) {
      std::ranges::sort(extensions);
      builder.add(name).add(std::ssize(extensions));
      for (const std::string& extension : extensions) builder.add(extension);
    }
    return builder.finish();
  }

  [[nodiscard]] RecordIndex index(const DatasetFile& file) const override {
    refuse_compressed(file);
    RecordIndex index;
    NameTableBuilder keys;
    std::string sample;
    std::unordered_set<std::string> samples;
    std::set<std::string, std::less<>> seen;  // extensions of the sample
    std::vector<std::string> taken;           // the member that is each field
    TarMembers members(file, allow_missing_end_);
    for (Member member; members.next(member);) {
      const TarKey key = tar_key(member.name);
      if (key.extension.empty()) continue;
      if (index.samples == 0 || key.sample != sample) {
        sample = key.sample;
        seen.clear();
        taken.assign(fields().size(), {});
        if (!samples.insert(sample).second) {
          throw file.damage(member.range.offset,
                            "\"{}\" is of the sample \"{}\", whose other members stand further up: what is "
                            "of one sample must stand together; make the tar file with --sort=name",
                            member.name, sample);
        }
        keys.add("", sample);
        ++index.samples;
        index.ranges.resize(index.ranges.size() + fields().size(),
                            {.offset = member.range.offset, .bytes = 0});
      }
      if (!seen.insert(key.extension).second) {
        throw file.damage(member.range.offset,
                          "sample \"{}\" has \"{}\" twice; give each sample a name of its own", sample,
                          key.extension);
      }
      const auto field = numbers_.find(key.extension);
      if (field != numbers_.end()) {
        const std::string other = std::exchange(taken[field->second], member.name);
        if (!other.empty()) {
          throw file.damage(member.range.offset,
                            "sample \"{}\" has \"{}\" and \"{}\", both for the field \"{}\"; leave one "
                            "out of the tar file, or out of the option fields",
                            sample, other, member.name, fields()[field->second].name);
        }
        index.ranges[index.ranges.size() - fields().size() + field->second] = member.range;
      } else if (is_open_) {
        throw unknown_extension(file, member.name, key.extension);
      }
    }
    index.keys = keys.finish();
    return index;
  }

 private:
  [[nodiscard]] Error unknown_extension(const DatasetFile& file, const std::string& member,
                                        const std::string& extension) const {
    return failure(ErrorCode::invalid_argument,
                   "open {}: \"{}\" has the extension \"{}\", and the first file has only {}; name those to "
                   "read with the option fields, where several may be one field",
                   file.path(), member, extension, fmt::join(names_of(fields()), ", "));
  }

  std::vector<TarField> joined_;  // the fields, unless each is called as its extension
  bool is_open_;                  // the fields are those of the first file
  bool keys_;
  bool allow_missing_end_;
  std::map<std::string, std::size_t, std::less<>> numbers_;
};

// Of a file, in order.
std::vector<std::string> extensions_of(const FileList& files, DatasetFile& file, const TarOptions& options) {
  file.read_on();
  const FileEncoding as{.compression = compression_of(file)};
  if (as.compression != Compression::none) file = decompress_file(files, file.number(), as);
  refuse_compressed(file);
  std::set<std::string> extensions;
  TarMembers members(file, options.allow_missing_end);
  for (Member member; members.next(member);) {
    if (TarKey key = tar_key(member.name); !key.extension.empty())
      extensions.insert(std::move(key.extension));
  }
  if (options.keys && extensions.contains(std::string(kKeyField))) {
    throw failure(ErrorCode::invalid_argument,
                  "open {}: it has an extension \"{}\", which is the name of the field of keys; name those "
                  "to read with the option fields, or do without the option keys",
                  file.path(), kKeyField);
  }
  if (!extensions.empty()) return {extensions.begin(), extensions.end()};
  throw failure(ErrorCode::not_found,
                "open {}: no member is named as one of a sample, such as 000001.jpg; name those to read with "
                "the option fields if other files have some",
                file.path());
}

std::vector<std::string> first_extensions(const FileList& files, const TarOptions& options) {
  return look_into_first(files, "look into the first tar file",
                         [&](DatasetFile& file) { return extensions_of(files, file, options); });
}

// Of what was asked for by name.
void require_fields(const Source& source, const FileList& files, const TarOptions& options) {
  constexpr std::int64_t kAtOnce = 4096;
  std::vector<std::int64_t> rows;
  std::vector<SampleId> ids;
  const auto has_any = [&](std::size_t field) {
    for (std::int64_t first = 0; first < source.size(); first += kAtOnce) {
      ids.clear();
      for (std::int64_t i = first; i < std::min(first + kAtOnce, source.size()); ++i) ids.push_back({i});
      rows.resize(ids.size());
      source.rows(ids, field, rows);
      if (std::ranges::any_of(rows, [](std::int64_t n) { return n > 0; })) return true;
    }
    return source.size() == 0;
  };
  for (std::size_t f = 0; f < options.fields.size(); ++f) {
    if (has_any(f)) continue;
    const auto found = first_extensions(files, options);
    const auto& [name, extensions] = options.fields[f];
    if (std::ranges::find_first_of(found, extensions) != found.end()) continue;  // empty, and there
    throw failure(
        ErrorCode::invalid_argument,
        "open {}: no sample has anything in \"{}\", which the option fields names{}; the first file "
        "has {} (all that follows the first dot of a name)",
        files.shown_directory(), name,
        are_extensions({&options.fields[f], 1}) ? "" : fmt::format(" for {}", fmt::join(extensions, ", ")),
        fmt::join(found, ", "));
  }
}

// With a member's head.
bool is_tar(const FileList& files, std::size_t i) {
  DatasetFile file = files.open(i);
  file.read_on();
  try {
    const std::string head = decompress_head(file, compression_of(file), kUstarAt + kUstar.size());
    return head.size() > kUstarAt && head.substr(kUstarAt) == kUstar;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::corrupt) throw;
    return false;  // what is not as it was listed, or begins as if it were compressed
  }
}

std::shared_ptr<const Source> open_tar(const Catalog& catalog, const TarOptions& options) {
  const FileList files = files_of(catalog).with_sizes();
  const bool is_open = options.fields.empty();
  std::vector<TarField> fields = options.fields;
  if (is_open) std::ranges::move(first_extensions(files, options), std::back_inserter(fields));
  const std::string signature = fmt::format("tar {} {}{}", is_open ? "all of" : "of", fields_text(fields),
                                            options.allow_missing_end ? ", with or without an end" : "");
  auto source = make_record_source(files, std::make_unique<TarFormat>(fields, options), signature);
  require_fields(*source, files, options);
  return source;
}

}  // namespace

constinit const FormatEntry kTarFormat =
    opened_by<open_tar>({.name = "tar",
                         .endings = {".tar", ".tgz", ".tbz2", ".txz"},
                         .begins = is_tar,
                         .unpacks = true,
                         .options = {{"fields", option<&TarOptions::fields>},
                                     {"keys", option<&TarOptions::keys>},
                                     {"allow_missing_end", option<&TarOptions::allow_missing_end>}}});

TarKey tar_key(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  const std::size_t begin = slash == std::string_view::npos ? 0 : slash + 1;
  const std::string_view last = name.substr(begin);
  const std::size_t dot = last.find('.');
  const bool is_hidden = dot == 0 || (last.starts_with("__") && last.ends_with("__"));
  if (dot == std::string_view::npos || is_hidden) return {};
  TarKey key{.sample = name.substr(0, begin + dot), .extension = std::string(last.substr(dot + 1))};
  std::ranges::transform(key.extension, key.extension.begin(), [](char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  return key;
}

}  // namespace rota::internal
