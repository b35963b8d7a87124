#include <fmt/format.h>
#include <fmt/ranges.h>
#include <isa-l/crc.h>
#include <minizip/unzip.h>
#include <zlib.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <utility>

#include "catalog/serialize.hpp"
#include "formats/formats.hpp"
#include "formats/npy_header.hpp"
#include "formats/records.hpp"
#include "rota/error.hpp"
#include "source/unpack_stored.hpp"

namespace rota::internal {
namespace {

constexpr std::string_view kSuffix = ".npy";

/// A file in a zip file.
struct ZipMember {
  std::string name;
  std::uint64_t offset = 0;  // of its first stored byte
  std::uint64_t stored_bytes = 0;
  std::uint64_t bytes = 0;  // unpacked
  std::uint32_t crc = 0;    // of them
  bool is_deflated = false;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(name, offset, stored_bytes, bytes, crc, is_deflated);
  }
};

// Deflate makes at most 1,032 bytes of one (zlib's technical notes).
constexpr std::uint64_t kMostRatio = 1032;

// minizip, which is asked for the directory of a zip file and never for data, reads through these, from our
// file: often one byte at a time, which would be a request each to an object store.
struct Stream {
  static constexpr std::uint64_t kBlockBytes = 1 << 14;

  const DatasetFile& file;
  std::uint64_t at = 0;
  std::exception_ptr error = {};  // of a read: minizip takes it for the end of the file
  std::uint64_t block = 0;        // the one that was read last
  std::vector<std::byte> bytes = {};

  // Up to the end of a block, or of the file.
  std::size_t read(std::span<std::byte> to) {
    if (bytes.empty() || at / kBlockBytes != block) {
      bytes.resize(kBlockBytes);
      bytes.resize(file.read_up_to_end(at / kBlockBytes * kBlockBytes, bytes));
      block = at / kBlockBytes;
    }
    const std::size_t from = std::min<std::size_t>(at % kBlockBytes, bytes.size());
    const std::size_t got = std::min(to.size(), bytes.size() - from);
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(from), got, to.begin());
    at += got;
    return got;
  }
};

voidpf open_file(voidpf opaque, const void* /*name*/, int /*mode*/) { return opaque; }
uLong read_file(voidpf /*opaque*/, voidpf stream, void* to, uLong bytes) {
  auto& position = *static_cast<Stream*>(stream);
  try {
    std::span into(static_cast<std::byte*>(to), bytes);
    for (std::size_t got = 1; got > 0 && !into.empty(); into = into.subspan(got)) got = position.read(into);
    return bytes - into.size();
  } catch (...) {  // nothing may be thrown through C
    if (position.error == nullptr) position.error = std::current_exception();
    position.bytes.clear();
    return 0;
  }
}
ZPOS64_T tell_file(voidpf /*opaque*/, voidpf stream) { return static_cast<Stream*>(stream)->at; }
// NOLINTNEXTLINE(google-runtime-int): minizip's type
long seek_file(voidpf /*opaque*/, voidpf stream, ZPOS64_T offset, int origin) {
  auto& position = *static_cast<Stream*>(stream);
  std::uint64_t base = 0;
  if (origin == ZLIB_FILEFUNC_SEEK_CUR) base = position.at;
  if (origin == ZLIB_FILEFUNC_SEEK_END) base = position.file.bytes();
  position.at = base + offset;
  return 0;
}
int close_file(voidpf /*opaque*/, voidpf /*stream*/) { return 0; }
int has_failed(voidpf /*opaque*/, voidpf stream) {
  return static_cast<Stream*>(stream)->error != nullptr ? 1 : 0;
}

Error no_zip(const DatasetFile& file) {
  return file.damage(0, "it is no zip file, or is damaged or cut short");
}

Error unsupported(const DatasetFile& file, std::string_view name, std::string_view what) {
  return {ErrorCode::unsupported,
          fmt::format("open {}: \"{}\" is {}; write it stored or deflated", file.path(), name, what)};
}

ZipMember current(const DatasetFile& file, unzFile zip) {
  unz_file_info64 info{};
  std::string name(std::numeric_limits<std::uint16_t>::max(), '\0');  // the longest there is
  if (::unzGetCurrentFileInfo64(zip, &info, name.data(), name.size(), nullptr, 0, nullptr, 0) != UNZ_OK) {
    throw no_zip(file);
  }
  ZipMember member{.name = name.substr(0, info.size_filename),
                   .stored_bytes = info.compressed_size,
                   .bytes = info.uncompressed_size,
                   .crc = static_cast<std::uint32_t>(info.crc),
                   .is_deflated = info.compression_method == Z_DEFLATED};
  constexpr uLong kEncrypted = 1;
  if ((info.flag & kEncrypted) != 0) throw unsupported(file, member.name, "encrypted");
  if (info.compression_method != 0 && !member.is_deflated) {
    throw unsupported(file, member.name, fmt::format("packed by method {}", info.compression_method));
  }
  int method = 0;
  int level = 0;
  if (::unzOpenCurrentFile2(zip, &method, &level, 1) != UNZ_OK) throw no_zip(file);
  member.offset = ::unzGetCurrentFileZStreamPos64(zip);
  ::unzCloseCurrentFile(zip);
  const std::uint64_t end = file.bytes();
  const bool is_inside = member.offset <= end && member.stored_bytes <= end - member.offset;
  const bool is_possible = member.is_deflated ? member.bytes / kMostRatio <= member.stored_bytes
                                              : member.bytes == member.stored_bytes;
  if (is_inside && is_possible) return member;
  throw file.damage(member.offset,
                    fmt::format("\"{}\" is said to have {} bytes in {} stored ones, and the file "
                                "has {}: it is damaged, or was cut short",
                                member.name, member.bytes, member.stored_bytes, end));
}

// All within the file. Throws Error{corrupt} naming file and offset, Error{unsupported} for encrypted ones
// and methods other than stored and deflated.
std::vector<ZipMember> list_zip(const DatasetFile& file) {
  Stream position{.file = file};
  const auto or_not_read = [&](const Error& error) -> Error {
    if (position.error != nullptr) std::rethrow_exception(position.error);
    return error;
  };
  zlib_filefunc64_def calls{.zopen64_file = open_file,
                            .zread_file = read_file,
                            .zwrite_file = nullptr,
                            .ztell64_file = tell_file,
                            .zseek64_file = seek_file,
                            .zclose_file = close_file,
                            .zerror_file = has_failed,
                            .opaque = &position};
  const std::unique_ptr<void, decltype(&::unzClose)> zip(::unzOpen2_64("", &calls), ::unzClose);
  if (zip == nullptr) throw or_not_read(no_zip(file));
  std::vector<ZipMember> members;
  int status = ::unzGoToFirstFile(zip.get());
  try {
    for (; status == UNZ_OK; status = ::unzGoToNextFile(zip.get()))
      members.push_back(current(file, zip.get()));
  } catch (const Error& error) {
    throw or_not_read(error);
  }
  if (status != UNZ_END_OF_LIST_OF_FILE || position.error != nullptr) throw or_not_read(no_zip(file));
  return members;
}

/// The unpacked bytes of a member, from its first one on, and their checksum. *One thread.*
class ZipReader {
 public:
  ZipReader(const DatasetFile& file, const ZipMember& member) : file_(file), member_(member) {
    const bool has_begun = !member.is_deflated || ::inflateInit2(&z_, -MAX_WBITS) == Z_OK;  // no zlib head
    if (!has_begun) throw std::bad_alloc();
  }
  ~ZipReader() { ::inflateEnd(&z_); }
  ZipReader(const ZipReader&) = delete;
  ZipReader& operator=(const ZipReader&) = delete;

  /// Fills `to` with those that follow. Throws as DatasetFile::read does, Error{corrupt} where they are not
  /// what deflating leaves.
  void next(std::span<std::byte> to) {
    if (to.size() > member_.bytes - done_) throw damaged();
    if (member_.is_deflated) {
      inflate_into(to);
    } else {
      file_.read(member_.offset + done_, to);
    }
    done_ += to.size();
    crc_ = ::crc32_gzip_refl(crc_, reinterpret_cast<const unsigned char*>(to.data()), to.size());
  }
  /// Throws Error{corrupt} unless all were read, and their checksum is right.
  void require_end() const {
    if (done_ == member_.bytes && crc_ == member_.crc) return;
    throw file_.damage(member_.offset, fmt::format("the checksum of \"{}\" is wrong", member_.name));
  }

 private:
  [[nodiscard]] Error damaged() const {
    return file_.damage(member_.offset,
                        fmt::format("\"{}\" cannot be unpacked: it is damaged", member_.name));
  }

  void inflate_into(std::span<std::byte> to) {
    constexpr std::size_t kMostAtOnce = std::numeric_limits<uInt>::max();
    while (!to.empty()) {
      if (z_.avail_in == 0) refill(to.size());
      const std::size_t most = std::min(to.size(), kMostAtOnce);
      z_.next_out = reinterpret_cast<Bytef*>(to.data());
      z_.avail_out = static_cast<uInt>(most);
      const uInt before = z_.avail_in;
      const int status = ::inflate(&z_, Z_NO_FLUSH);
      const std::size_t made = most - z_.avail_out;
      to = to.subspan(made);
      if ((status != Z_OK && status != Z_STREAM_END) || (before == z_.avail_in && made == 0)) throw damaged();
    }
  }

  // The next stored bytes: few for a header, many for data.
  void refill(std::size_t wanted) {
    constexpr std::size_t kLeast = 4 << 10;
    constexpr std::size_t kMost = 1 << 20;
    window_.resize(
        std::min<std::uint64_t>(member_.stored_bytes - stored_, std::clamp(wanted, kLeast, kMost)));
    file_.read(member_.offset + stored_, window_);
    stored_ += window_.size();
    z_.next_in = reinterpret_cast<Bytef*>(window_.data());
    z_.avail_in = static_cast<uInt>(window_.size());
  }

  const DatasetFile& file_;
  const ZipMember& member_;
  z_stream z_{};                   // of a deflated one
  std::vector<std::byte> window_;  // stored bytes; z_ has taken some of them
  std::uint64_t stored_ = 0;       // bytes that were in it so far
  std::uint64_t done_ = 0;
  std::uint32_t crc_ = 0;
};

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
      std::string names;
      for (const auto& [other, member] : members)
        names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", other);
      throw Error(ErrorCode::not_found,
                  fmt::format("open {}: no array \"{}\"; it has {}", file.path(), name, names));
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

std::shared_ptr<const Source> open_as(const Catalog& catalog, const NpzOptions& options) {
  FileList files = files_of(catalog).with_sizes();
  const std::string signature = fmt::format("npz arrays {}", options.arrays);
  const auto index = index_open_files(files, signature, [&](const DatasetFile& file) {
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

void NpzOptions::validate() const { internal::require_distinct("NpzOptions::arrays", arrays); }

}  // namespace rota
