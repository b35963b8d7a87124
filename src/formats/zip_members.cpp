#include "formats/zip_members.hpp"

#include <fmt/format.h>
#include <isa-l/crc.h>
#include <minizip/unzip.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <new>
#include <type_traits>

#include "rota/error.hpp"

namespace rota::internal {
namespace {

// Deflate makes at most 1,032 bytes of one (zlib's technical notes).
constexpr std::uint64_t kMostRatio = 1032;

// minizip reads through these, from our descriptor.
struct Stream {
  const RecordFile& file;
  std::uint64_t at = 0;
};

voidpf open_file(voidpf opaque, const void* /*name*/, int /*mode*/) { return opaque; }
uLong read_file(voidpf /*opaque*/, voidpf stream, void* to, uLong bytes) {
  auto& position = *static_cast<Stream*>(stream);
  const std::int64_t got =
      read_at(position.file.fd, std::span(static_cast<std::byte*>(to), bytes), position.at);
  if (got > 0) position.at += static_cast<std::uint64_t>(got);
  return got > 0 ? static_cast<uLong>(got) : 0;
}
uLong write_file(voidpf /*opaque*/, voidpf /*stream*/, const void* /*from*/, uLong /*bytes*/) { return 0; }
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
int has_failed(voidpf /*opaque*/, voidpf /*stream*/) { return 0; }

struct CloseZip {
  void operator()(void* zip) const noexcept { ::unzClose(zip); }
};
using Zip = std::unique_ptr<std::remove_pointer_t<unzFile>, CloseZip>;

Error no_zip(const RecordFile& file) {
  return file.damage(0, "it is no zip file, or is damaged or cut short");
}

Error unsupported(const RecordFile& file, std::string_view name, std::string_view what) {
  return {ErrorCode::unsupported,
          fmt::format("open {}: \"{}\" is {}; write it stored or deflated", file.path(), name, what)};
}

ZipMember current(const RecordFile& file, unzFile zip) {
  unz_file_info64 info{};
  if (::unzGetCurrentFileInfo64(zip, &info, nullptr, 0, nullptr, 0, nullptr, 0) != UNZ_OK) throw no_zip(file);
  ZipMember member{.name = std::string(info.size_filename, '\0'),
                   .stored_bytes = info.compressed_size,
                   .bytes = info.uncompressed_size,
                   .crc = static_cast<std::uint32_t>(info.crc),
                   .is_deflated = info.compression_method == Z_DEFLATED};
  if (::unzGetCurrentFileInfo64(zip, &info, member.name.data(), info.size_filename, nullptr, 0, nullptr, 0) !=
      UNZ_OK) {
    throw no_zip(file);
  }
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

}  // namespace

std::vector<ZipMember> list_zip(const RecordFile& file) {
  Stream position{.file = file};
  zlib_filefunc64_def calls{.zopen64_file = open_file,
                            .zread_file = read_file,
                            .zwrite_file = write_file,
                            .ztell64_file = tell_file,
                            .zseek64_file = seek_file,
                            .zclose_file = close_file,
                            .zerror_file = has_failed,
                            .opaque = &position};
  const Zip zip(::unzOpen2_64("", &calls));
  if (zip == nullptr) throw no_zip(file);
  std::vector<ZipMember> members;
  int status = ::unzGoToFirstFile(zip.get());
  for (; status == UNZ_OK; status = ::unzGoToNextFile(zip.get())) members.push_back(current(file, zip.get()));
  if (status != UNZ_END_OF_LIST_OF_FILE) throw no_zip(file);
  return members;
}

struct ZipReader::Inflation {
  Inflation() {
    constexpr int kRaw = -15;  // without zlib's head and checksum
    if (inflateInit2(&z, kRaw) != Z_OK) throw std::bad_alloc();
  }
  ~Inflation() { inflateEnd(&z); }
  Inflation(const Inflation&) = delete;
  Inflation& operator=(const Inflation&) = delete;

  z_stream z{};
  std::vector<std::byte> window;  // stored bytes; z has taken some of them
  std::uint64_t read = 0;         // stored bytes that were in it so far
};

ZipReader::ZipReader(const RecordFile& file, const ZipMember& member)
    : file_(file),
      member_(member),
      inflation_(member.is_deflated ? std::make_unique<Inflation>() : nullptr) {}
ZipReader::~ZipReader() = default;

void ZipReader::next(std::span<std::byte> to) {
  constexpr std::size_t kMostAtOnce = std::numeric_limits<uInt>::max();
  const auto damaged = [&] {
    return file_.damage(member_.offset,
                        fmt::format("\"{}\" cannot be unpacked: it is damaged", member_.name));
  };
  if (to.size() > member_.bytes - done_) throw damaged();
  const std::span<std::byte> all = to;
  if (inflation_ == nullptr) {
    file_.read(member_.offset + done_, to);
  } else {
    z_stream& z = inflation_->z;
    while (!to.empty()) {
      if (z.avail_in == 0) refill(to.size());
      const std::size_t most = std::min(to.size(), kMostAtOnce);
      z.next_out = reinterpret_cast<Bytef*>(to.data());
      z.avail_out = static_cast<uInt>(most);
      const uInt before = z.avail_in;
      const int status = inflate(&z, Z_NO_FLUSH);
      const std::size_t made = most - z.avail_out;
      to = to.subspan(made);
      if ((status != Z_OK && status != Z_STREAM_END) || (before == z.avail_in && made == 0)) throw damaged();
    }
  }
  done_ += all.size();
  crc_ = ::crc32_gzip_refl(crc_, reinterpret_cast<const unsigned char*>(all.data()), all.size());
}

// The next stored bytes: few for a header, many for data.
void ZipReader::refill(std::size_t wanted) {
  constexpr std::size_t kLeast = 4 << 10;
  constexpr std::size_t kMost = 1 << 20;
  z_stream& z = inflation_->z;
  std::vector<std::byte>& window = inflation_->window;
  std::uint64_t& read = inflation_->read;
  window.resize(std::min<std::uint64_t>(member_.stored_bytes - read, std::clamp(wanted, kLeast, kMost)));
  file_.read(member_.offset + read, window);
  read += window.size();
  z.next_in = reinterpret_cast<Bytef*>(window.data());
  z.avail_in = static_cast<uInt>(window.size());
}

void ZipReader::require_end() {
  if (done_ == member_.bytes && crc_ == member_.crc) return;
  throw file_.damage(member_.offset, fmt::format("the checksum of \"{}\" is wrong", member_.name));
}

}  // namespace rota::internal
