#include "formats/file_memory.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <array>
#include <exception>
#include <limits>
#include <new>

#include "core/failure.hpp"
#include "core/owned.hpp"
#include "core/parallel.hpp"
#include "formats/archive_input.hpp"

namespace rota::internal {
namespace {

constexpr std::size_t kStoredBytes = 32 << 20;  // of a storage, which brings parts of it at once

// Calls `take(piece, byte of the file)` for one piece of the file after the other, while those behind it
// come; false: no more are wanted.
template <typename Take>
void for_each_piece(const DatasetFile& file, std::size_t piece_bytes, Take take) {
  constexpr std::uint64_t kAhead = 8 << 20;
  static_assert(kAhead % kBlockBytes == 0);
  std::vector<std::byte> block;
  std::vector<std::byte> next;  // of a storage: it comes while the one before it is taken
  const auto read = [&](std::uint64_t at, std::vector<std::byte>& to) {
    to.resize(std::min<std::uint64_t>(piece_bytes, file.bytes() - at));
    file.read(at, to);
  };
  bool is_more = true;
  for (std::uint64_t at = 0; is_more && at < file.bytes(); at += block.size()) {
    if (at == kBlockBytes) file.will_read(at, kAhead);  // not where a look at the head is enough
    if (at % kAhead == kBlockBytes) file.will_read(at + kAhead, kAhead);
    if (at == 0 || piece_bytes == kBlockBytes) {
      read(at, block);
    } else {
      std::swap(block, next);
    }
    const std::uint64_t end = at + block.size();
    const bool is_read_ahead = piece_bytes > kBlockBytes && end < file.bytes();
    parallel_for(fmt::format("fetch {}", file.path()), is_read_ahead ? 2 : 1, 1, 2,
                 [&](const LoopPart& part) {
                   if (part.begin == 0) is_more = take(std::span<const std::byte>(block), at);
                   if (part.begin == 1) read(end, next);
                 });
  }
}

Error not_decompressed(const DatasetFile& file, std::uint64_t at, std::string_view format,
                       std::string_view what) {
  return file.damage(at, "from here it cannot be unpacked as {} ({}); restore it", format, what);
}

void decompress_gzip(const DatasetFile& file, std::size_t piece_bytes, const RawSink& sink) {
  constexpr int kGzip = 32 + MAX_WBITS;  // or zlib's
  z_stream stream{};
  if (::inflateInit2(&stream, kGzip) != Z_OK) throw std::bad_alloc();
  const std::unique_ptr<z_stream, FreeBy<::inflateEnd>> owner(&stream);
  std::vector<std::byte> raw(kBlockBytes);
  bool is_inside = false;
  for_each_piece(file, piece_bytes, [&](std::span<const std::byte> piece, std::uint64_t at) {
    const std::uint64_t end = at + piece.size();
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): zlib only reads it
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(piece.data()));
    stream.avail_in = static_cast<uInt>(piece.size());
    do {
      if (!is_inside) ::inflateReset(&stream);
      stream.next_out = reinterpret_cast<Bytef*>(raw.data());
      stream.avail_out = static_cast<uInt>(raw.size());
      const int status = ::inflate(&stream, Z_NO_FLUSH);
      if (status == Z_MEM_ERROR) throw std::bad_alloc();
      is_inside = status != Z_STREAM_END;
      if (is_inside && status != Z_OK && status != Z_BUF_ERROR) {  // the latter: it needs more bytes
        throw not_decompressed(file, end - stream.avail_in, "gzip",
                               stream.msg == nullptr ? "it needs a dictionary" : stream.msg);
      }
      if (!sink(std::span(raw).first(raw.size() - stream.avail_out))) return is_inside = false;
    } while (stream.avail_in > 0 || (is_inside && stream.avail_out == 0));
    return true;
  });
  if (is_inside) throw file.damage(file.bytes(), "it ends inside a gzip member; restore it");
}

// Throws where `status` is an error, at byte `at`.
void check_zstd(const DatasetFile& file, std::size_t status, std::uint64_t at) {
  if (ZSTD_isError(status) == 0) return;
  if (ZSTD_getErrorCode(status) == ZSTD_error_memory_allocation) throw std::bad_alloc();
  if (ZSTD_getErrorCode(status) != ZSTD_error_frameParameter_windowTooLarge) {
    throw not_decompressed(file, at, "zstd", ZSTD_getErrorName(status));
  }
  throw failure(
      ErrorCode::unsupported,
      "unpack {}: zstd needs a window of more than 128 MiB for it; compress it again with --long=27 or less",
      file.path());
}

void decompress_zstd(const DatasetFile& file, std::size_t piece_bytes, const RawSink& sink) {
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  if (context == nullptr) throw std::bad_alloc();
  std::vector<std::byte> raw(kBlockBytes);
  bool is_inside = false;
  for_each_piece(file, piece_bytes, [&](std::span<const std::byte> piece, std::uint64_t at) {
    ZSTD_inBuffer in{piece.data(), piece.size(), 0};
    ZSTD_outBuffer out{raw.data(), raw.size(), 0};
    do {
      out.pos = 0;
      const std::size_t status = ZSTD_decompressStream(context.get(), &out, &in);
      check_zstd(file, status, at + in.pos);
      is_inside = status != 0;
      if (!sink(std::span(raw).first(out.pos))) return is_inside = false;
    } while (in.pos < in.size || (is_inside && out.pos == out.size));
    return true;
  });
  if (is_inside) throw file.damage(file.bytes(), "it ends inside a zstd frame; restore it");
}

void decompress_other(const DatasetFile& file, const RawSink& sink) {
  const std::unique_ptr<archive, FreeBy<::archive_read_free>> reader(::archive_read_new());
  if (reader == nullptr) throw std::bad_alloc();
  ArchiveInput input{.file = file, .block = std::vector<std::byte>(kBlockBytes)};
  const auto fail = [&](const char* why) {
    const char* format = ::archive_filter_name(reader.get(), 0);
    const auto at = std::max<std::int64_t>(::archive_filter_bytes(reader.get(), -1), 0);  // -1: unknown
    throw not_decompressed(file, static_cast<std::uint64_t>(at),
                           format == nullptr ? "what it begins as" : format, why == nullptr ? "?" : why);
  };
  const auto require = [&](la_ssize_t status) {
    if (input.error != nullptr) std::rethrow_exception(input.error);
    if (status < 0 && status != ARCHIVE_WARN) fail(::archive_error_string(reader.get()));
  };
  ::archive_read_support_filter_bzip2(reader.get());
  ::archive_read_support_filter_xz(reader.get());
  ::archive_read_support_filter_lzip(reader.get());
  ::archive_read_support_filter_lz4(reader.get());
  ::archive_read_support_filter_compress(reader.get());
  require(::archive_read_support_format_raw(reader.get()));
  require(::archive_read_support_format_empty(reader.get()));
  require(::archive_read_open(reader.get(), &input, nullptr, ArchiveInput::read, nullptr));
  archive_entry* entry = nullptr;
  const int status = ::archive_read_next_header(reader.get(), &entry);
  require(status);
  if (::archive_filter_code(reader.get(), 0) == ARCHIVE_FILTER_NONE) fail("it is cut short or damaged");
  std::vector<std::byte> raw(kBlockBytes);
  for (;;) {
    const la_ssize_t got =
        status == ARCHIVE_EOF ? 0 : ::archive_read_data(reader.get(), raw.data(), raw.size());
    require(got);
    if (got <= 0) break;
    if (!sink(std::span(raw).first(static_cast<std::size_t>(got)))) return;
  }
  const auto end = static_cast<std::uint64_t>(::archive_filter_bytes(reader.get(), -1));
  if (end < file.bytes()) fail("something else begins here");
}

// How many bytes a compressed byte can become, where anybody knows. A block of zstd takes 4 bytes or more,
// and holds 128 KiB or less (RFC 8878, 3.1.1.2); a match of deflate takes 2 bits or more, and is of 258 bytes
// or less (RFC 1951).
std::int64_t most_ratio(Compression compression) {
  constexpr std::array<std::int64_t, 4> kRatios{1, 1032, (128 << 10) / 4,
                                                std::numeric_limits<std::int64_t>::max()};
  return kRatios.at(static_cast<std::size_t>(compression));
}

void check_possible(const DatasetFile& file, const FileEncoding& as) {
  if (as.raw_bytes < 0) return;
  const auto compressed = static_cast<std::int64_t>(file.bytes());
  if (as.raw_bytes / most_ratio(as.compression) <= compressed) return;
  throw file.damage(0, "its {} bytes cannot unpack to the {} that were to come; restore it", compressed,
                    as.raw_bytes);
}

// Does what needs memory that others can open.
auto in_memory(const DatasetFile& file, const auto& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw failure(error.code(),
                  "fetch {} into memory: {}; where memory, space or descriptors are short, have fewer shards "
                  "there at a time (the option interleave), or less kept (the option shared_memory_limit)",
                  file.path(), error.what());
  }
}

// A number of bytes that was to come has come, or may still.
void check_size(const DatasetFile& file, const FileEncoding& as, std::size_t raw_bytes, bool is_end) {
  if (as.raw_bytes < 0) return;
  const auto bytes = static_cast<std::int64_t>(raw_bytes);
  if (bytes > as.raw_bytes) {
    throw file.damage(file.bytes(), "it unpacks to more than the {} bytes that were to come; restore it",
                      as.raw_bytes);
  }
  if (!is_end || bytes == as.raw_bytes) return;
  throw file.damage(file.bytes(), "it unpacks to {} bytes, and {} were to come; restore it", bytes,
                    as.raw_bytes);
}

}  // namespace

Compression compression_of(const DatasetFile& file) {
  constexpr std::array<std::string_view, 5> kOthers{"BZh",
                                                    "\xFD"
                                                    "7zXZ",
                                                    "LZIP", "\x04\x22\x4D\x18", "\x1F\x9D"};
  std::array<std::uint8_t, 5> head{};
  (void)file.read_up_to_end(0, std::as_writable_bytes(std::span(head)));
  if (head[0] == 0x1F && head[1] == 0x8B && head[2] == 0x08) return Compression::gzip;
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  if (std::ranges::any_of(kOthers, [&](std::string_view magic) { return text.starts_with(magic); }))
    return Compression::other;
  const bool is_frame = text.starts_with("\x28\xB5\x2F\xFD");
  // One that holds no data, as some tools write in front.
  const bool is_skippable = (head[0] & 0xF0U) == 0x50 && text.substr(1).starts_with("\x2A\x4D\x18");
  return is_frame || is_skippable ? Compression::zstd : Compression::none;
}

void refuse_compressed(const DatasetFile& file) {
  if (compression_of(file) == Compression::none) return;
  throw failure(ErrorCode::unsupported, "open {}: what it unpacks to is compressed, too; unpack it once",
                file.path());
}

std::string_view without_compression(std::string_view name) {
  constexpr std::array<std::string_view, 8> kEndings{".gz", ".zst", ".zstd", ".bz2",
                                                     ".xz", ".lz",  ".lz4",  ".z"};
  for (const std::string_view ending : kEndings) {
    if (ends_as(name, ending)) return name.substr(0, name.size() - ending.size());
  }
  return name;
}

void decompress(const DatasetFile& file, Compression compression, const RawSink& sink,
                std::size_t piece_bytes) {
  if (compression == Compression::gzip) return decompress_gzip(file, piece_bytes, sink);
  if (compression == Compression::zstd) return decompress_zstd(file, piece_bytes, sink);
  if (compression == Compression::other) return decompress_other(file, sink);
  for_each_piece(file, piece_bytes,
                 [&](std::span<const std::byte> piece, std::uint64_t /*at*/) { return sink(piece); });
}

std::string decompress_head(const DatasetFile& file, Compression compression, std::size_t bytes) {
  std::string head;
  if (compression == Compression::none) {  // as many, and no more
    head.resize(bytes);
    head.resize(file.read_up_to_end(0, std::as_writable_bytes(std::span(head))));
    return head;
  }
  decompress(file, compression, [&](std::span<const std::byte> raw) {
    head.append(reinterpret_cast<const char*>(raw.data()), std::min(raw.size(), bytes - head.size()));
    return head.size() < bytes;
  });
  return head;
}

std::vector<FileEncoding> as_they_are(const FileList& files) {
  std::vector<FileEncoding> result(files.size());
  for (std::size_t i = 0; i < result.size(); ++i) result[i].raw_bytes = files.bytes(i);
  return result;
}

// Of a storage, which has many parts of it under way, straight to their places.
void copy_stored(const DatasetFile& file, MemoryFile& memory, const std::function<void()>& on_piece) {
  constexpr std::uint64_t kPiece = std::uint64_t{256} << 20;
  const auto to = in_memory(file, [&] {
    memory.resize(file.bytes());
    return memory.map_to_write();
  });
  for (std::uint64_t at = 0; at < file.bytes(); at += kPiece) {
    const std::size_t count = std::min(kPiece, file.bytes() - at);
    in_memory(file, [&] { memory.allot(at, count); });
    file.read(at, {to.get() + at, count});
    on_piece();
  }
}

std::shared_ptr<const FileMemory> fetch_file(const FileList& files, std::size_t i, const FileEncoding& as,
                                             const std::function<void()>& on_piece) {
  const DatasetFile file = files.open_unchanged(i);
  check_possible(file, as);
  auto memory = in_memory(file, [&] { return MemoryFile::in(files.context().options.shared_directory); });
  const bool is_stored = file.storage() != nullptr;
  if (is_stored && as.compression == Compression::none) {
    copy_stored(file, memory, on_piece);
  } else {
    const auto take = [&](std::span<const std::byte> raw) {
      check_size(file, as, memory.bytes() + raw.size(), false);
      in_memory(file, [&] { memory.append(raw); });
      on_piece();
      return true;
    };
    decompress(file, as.compression, take, is_stored ? kStoredBytes : kBlockBytes);
  }
  check_size(file, as, memory.bytes(), true);
  return in_memory(file, [&] {
    memory.seal();
    return std::make_shared<const FileMemory>(std::move(memory));
  });
}

DatasetFile file_in_memory(const FileList& files, std::size_t i, std::shared_ptr<const FileMemory> memory,
                           bool is_decompressed) {
  const std::span<const std::byte> bytes = memory->bytes();
  return {files.path(i), i, {std::move(memory), bytes.data()}, bytes.size(), is_decompressed};
}

DatasetFile decompress_file(const FileList& files, std::size_t i, const FileEncoding& as) {
  return file_in_memory(files, i, fetch_file(files, i, as), true);
}

}  // namespace rota::internal
