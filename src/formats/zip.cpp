#include "formats/numpy.hpp"

#include <fmt/format.h>
#include <isa-l/crc.h>
#include <minizip/unzip.h>

#include <algorithm>
#include <array>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <vector>

#include "core/bytes.hpp"
#include "core/caught.hpp"
#include "core/failure.hpp"

namespace rota::internal {
namespace {

// Deflate makes at most 1,032 bytes of one (zlib's technical notes).
constexpr std::uint64_t kMostRatio = 1032;

// minizip, which is asked for the directory of a zip file and never for data, reads through these, from our
// file: often one byte at a time.
struct Stream {
  const DatasetFile& file;
  std::uint64_t at = 0;
  std::exception_ptr error = {};  // of a read: minizip takes it for the end of the file
};

voidpf open_file(voidpf opaque, const void* /*name*/, int /*mode*/) { return opaque; }
uLong read_file(voidpf /*opaque*/, voidpf stream, void* to, uLong bytes) {
  auto& position = *static_cast<Stream*>(stream);
  std::size_t got = 0;
  const auto failed = thrown_by([&] {
    got = position.file.read_up_to_end(position.at, {static_cast<std::byte*>(to), bytes});
  });
  if (position.error == nullptr) position.error = failed;
  position.at += got;
  return got;
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
  return failure(ErrorCode::unsupported, "open {}: \"{}\" is {}; write it stored or deflated", file.path(),
                 name, what);
}

// The sizes and the place of a member, as the directory has them at `at`; minizip 1.1 does not know those of
// 64 bits, which stand in `extra` (APPNOTE.TXT of PKWARE, 4.5.3).
ZipMember placed(const DatasetFile& file, std::uint64_t at, std::span<const std::byte> extra) {
  constexpr std::uint32_t kInDirectory = 0x02014b50;
  constexpr std::uint32_t kBeforeData = 0x04034b50;
  constexpr std::uint32_t kIsIn64Bits = 0xffffffff;
  std::array<std::byte, 46> head{};
  if (file.read_up_to_end(at, head) < head.size() || load<std::uint32_t>(head, 0) != kInDirectory)
    throw no_zip(file);
  std::span<const std::byte> wide;
  while (extra.size() >= 4 && wide.empty()) {
    const auto part =
        extra.subspan(4, std::min<std::size_t>(load<std::uint16_t>(extra, 2), extra.size() - 4));
    if (load<std::uint16_t>(extra, 0) == 1) wide = part;
    extra = extra.subspan(4 + part.size());
  }
  const auto number = [&](std::size_t where) -> std::uint64_t {
    const auto narrow = load<std::uint32_t>(head, where);
    if (narrow != kIsIn64Bits || wide.size() < sizeof(std::uint64_t)) return narrow;
    const auto value = load<std::uint64_t>(wide, 0);
    wide = wide.subspan(sizeof(value));
    return value;
  };
  ZipMember member;
  member.bytes = number(24);  // in this order
  member.stored_bytes = number(20);
  const std::uint64_t before = number(42);
  std::array<std::byte, 30> local{};
  if (file.read_up_to_end(before, local) < local.size() || load<std::uint32_t>(local, 0) != kBeforeData)
    throw no_zip(file);
  member.offset = before + local.size() + load<std::uint16_t>(local, 26) + load<std::uint16_t>(local, 28);
  return member;
}

ZipMember current(const DatasetFile& file, unzFile zip) {
  constexpr std::size_t kMost = std::numeric_limits<std::uint16_t>::max();  // of each of both
  unz_file_info64 info{};
  std::string name(kMost, '\0');
  std::vector<std::byte> extra(kMost);
  if (::unzGetCurrentFileInfo64(zip, &info, name.data(), name.size(), extra.data(), extra.size(), nullptr,
                                0) != UNZ_OK) {
    throw no_zip(file);
  }
  extra.resize(std::min<std::size_t>(info.size_file_extra, kMost));
  ZipMember member = placed(file, ::unzGetOffset64(zip), extra);
  member.name = name.substr(0, info.size_filename);
  member.crc = static_cast<std::uint32_t>(info.crc);
  member.is_deflated = info.compression_method == Z_DEFLATED;
  constexpr uLong kEncrypted = 1;
  if ((info.flag & kEncrypted) != 0) throw unsupported(file, member.name, "encrypted");
  if (info.compression_method != 0 && !member.is_deflated) {
    throw unsupported(file, member.name, fmt::format("packed by method {}", info.compression_method));
  }
  const std::uint64_t end = file.bytes();
  const bool is_inside = member.offset <= end && member.stored_bytes <= end - member.offset;
  const bool is_possible = member.is_deflated ? member.bytes / kMostRatio <= member.stored_bytes
                                              : member.bytes == member.stored_bytes;
  if (is_inside && is_possible) return member;
  throw file.damage(member.offset,
                    "\"{}\" is said to have {} bytes in {} stored ones, and the file has {}: it is damaged, "
                    "or was cut short",
                    member.name, member.bytes, member.stored_bytes, end);
}

}  // namespace

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

ZipReader::ZipReader(const DatasetFile& file, const ZipMember& member) : file_(file), member_(member) {
  const bool has_begun = !member.is_deflated || ::inflateInit2(&z_, -MAX_WBITS) == Z_OK;  // no zlib head
  if (!has_begun) throw std::bad_alloc();
}

void ZipReader::next(std::span<std::byte> to) {
  if (to.size() > member_.bytes - done_) throw damaged();
  if (member_.is_deflated) {
    inflate_into(to);
  } else {
    file_.read(member_.offset + done_, to);
  }
  done_ += to.size();
  crc_ = ::crc32_gzip_refl(crc_, reinterpret_cast<const unsigned char*>(to.data()), to.size());
}

void ZipReader::require_end() const {
  if (done_ == member_.bytes && crc_ == member_.crc) return;
  throw file_.damage(member_.offset, "the checksum of \"{}\" is wrong", member_.name);
}

Error ZipReader::damaged() const {
  return file_.damage(member_.offset, "\"{}\" cannot be unpacked: it is damaged", member_.name);
}

void ZipReader::inflate_into(std::span<std::byte> to) {
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
void ZipReader::refill(std::size_t wanted) {
  constexpr std::size_t kLeast = 4 << 10;
  constexpr std::size_t kMost = 1 << 20;
  window_.resize(std::min<std::uint64_t>(member_.stored_bytes - stored_, std::clamp(wanted, kLeast, kMost)));
  file_.read(member_.offset + stored_, window_);
  stored_ += window_.size();
  z_.next_in = reinterpret_cast<Bytef*>(window_.data());
  z_.avail_in = static_cast<uInt>(window_.size());
}

}  // namespace rota::internal
