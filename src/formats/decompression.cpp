#include "formats/decompression.hpp"

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <new>
#include <vector>

#include "rota/error.hpp"

namespace rota::internal {
namespace {

constexpr std::size_t kBlockBytes = 1 << 18;

/// Unpacks pieces of a file, in order.
class Decoder {
 public:
  explicit Decoder(const RecordFile& file) : file_(file), raw_(kBlockBytes) {}
  virtual ~Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  /// False where `sink` wants no more.
  virtual bool take(std::span<const std::byte> packed, const RawSink& sink) = 0;
  /// Throws where the file must not end here.
  virtual void finish() const = 0;

 protected:
  [[nodiscard]] Error damage(std::uint64_t at, std::string_view format, std::string_view what) const {
    return file_.damage(at,
                        fmt::format("from here it cannot be unpacked as {} ({}); restore it", format, what));
  }
  void require_end(bool is_inside, std::string_view what) const {
    if (is_inside) throw file_.damage(done_, fmt::format("it ends inside a {}; restore it", what));
  }

  [[nodiscard]] std::string path() const { return file_.path(); }
  /// Bytes of the file that were taken.
  [[nodiscard]] std::uint64_t done() const noexcept { return done_; }
  void add_done(std::size_t bytes) noexcept { done_ += bytes; }
  /// Where to unpack to.
  [[nodiscard]] std::span<std::byte> raw() noexcept { return raw_; }

 private:
  const RecordFile& file_;
  std::vector<std::byte> raw_;
  std::uint64_t done_ = 0;
};

class GzipDecoder final : public Decoder {
 public:
  explicit GzipDecoder(const RecordFile& file) : Decoder(file) {
    constexpr int kGzip = 16 + MAX_WBITS;
    if (::inflateInit2(&stream_, kGzip) != Z_OK) throw std::bad_alloc();
  }
  ~GzipDecoder() override { ::inflateEnd(&stream_); }
  GzipDecoder(const GzipDecoder&) = delete;
  GzipDecoder& operator=(const GzipDecoder&) = delete;

  bool take(std::span<const std::byte> packed, const RawSink& sink) override {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): zlib only reads it
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
    stream_.avail_in = static_cast<uInt>(packed.size());
    do {
      if (!is_inside_) ::inflateReset(&stream_);
      is_inside_ = true;
      stream_.next_out = reinterpret_cast<Bytef*>(raw().data());
      stream_.avail_out = static_cast<uInt>(raw().size());
      check(::inflate(&stream_, Z_NO_FLUSH), done() + packed.size() - stream_.avail_in);
      if (!sink(raw().first(raw().size() - stream_.avail_out))) return false;
    } while (stream_.avail_in > 0 || (is_inside_ && stream_.avail_out == 0));
    add_done(packed.size());
    return true;
  }
  void finish() const override { require_end(is_inside_, "gzip member"); }

 private:
  void check(int status, std::uint64_t at) {
    if (status == Z_STREAM_END) {
      is_inside_ = false;
    } else if (status == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (status != Z_OK && status != Z_BUF_ERROR) {  // the latter: it needs more bytes
      throw damage(at, "gzip", stream_.msg == nullptr ? "it needs a dictionary" : stream_.msg);
    }
  }

  z_stream stream_{};
  bool is_inside_ = false;
};

class ZstdDecoder final : public Decoder {
 public:
  explicit ZstdDecoder(const RecordFile& file) : Decoder(file), context_(ZSTD_createDCtx()) {
    if (context_ == nullptr) throw std::bad_alloc();
  }

  bool take(std::span<const std::byte> packed, const RawSink& sink) override {
    ZSTD_inBuffer in{packed.data(), packed.size(), 0};
    for (bool has_more = true; has_more;) {
      ZSTD_outBuffer out{raw().data(), raw().size(), 0};
      const std::size_t status = ZSTD_decompressStream(context_.get(), &out, &in);
      if (ZSTD_getErrorCode(status) == ZSTD_error_memory_allocation) throw std::bad_alloc();
      if (ZSTD_getErrorCode(status) == ZSTD_error_frameParameter_windowTooLarge) {
        throw Error(
            ErrorCode::unsupported,
            fmt::format("unpack {}: zstd needs a window of more than 128 MiB for it; compress it again "
                        "with --long=27 or less",
                        path()));
      }
      if (ZSTD_isError(status) != 0) throw damage(done() + in.pos, "zstd", ZSTD_getErrorName(status));
      if (!sink(raw().first(out.pos))) return false;
      is_inside_ = status != 0;
      has_more = in.pos < in.size || (is_inside_ && out.pos == out.size);
    }
    add_done(packed.size());
    return true;
  }
  void finish() const override { require_end(is_inside_, "zstd frame"); }

 private:
  struct FreeContext {
    void operator()(ZSTD_DCtx* context) const noexcept { ZSTD_freeDCtx(context); }
  };
  std::unique_ptr<ZSTD_DCtx, FreeContext> context_;
  bool is_inside_ = false;
};

/// Of a file that is not packed.
class Copier final : public Decoder {
 public:
  using Decoder::Decoder;
  bool take(std::span<const std::byte> packed, const RawSink& sink) override { return sink(packed); }
  void finish() const override {}
};

std::unique_ptr<Decoder> make_decoder(const RecordFile& file, Compression compression) {
  if (compression == Compression::gzip) return std::make_unique<GzipDecoder>(file);
  if (compression == Compression::zstd) return std::make_unique<ZstdDecoder>(file);
  return std::make_unique<Copier>(file);
}

}  // namespace

Compression compression_of(std::span<const std::byte> head) noexcept {
  const auto byte = [&](std::size_t i) { return i < head.size() ? std::to_integer<int>(head[i]) : -1; };
  if (byte(0) == 0x1F && byte(1) == 0x8B && byte(2) == 0x08) return Compression::gzip;
  const bool is_frame = byte(0) == 0x28 && byte(1) == 0xB5 && byte(2) == 0x2F && byte(3) == 0xFD;
  // One that holds no data, as some tools write in front.
  const bool is_skippable = (byte(0) & ~0xF) == 0x50 && byte(1) == 0x2A && byte(2) == 0x4D && byte(3) == 0x18;
  return is_frame || is_skippable ? Compression::zstd : Compression::none;
}

Compression compression_of(const RecordFile& file) {
  std::array<std::byte, 4> head{};
  const std::int64_t got = read_at(file.fd, head, 0);
  if (got < 0) throw Error(ErrorCode::io, system_error("read", file.path(), errno).what());
  return compression_of(std::span(head).first(static_cast<std::size_t>(got)));
}

void decompress(const RecordFile& file, Compression compression, const RawSink& sink) {
  const auto decoder = make_decoder(file, compression);
  std::vector<std::byte> block(kBlockBytes);
  const std::int64_t now = size_of_open(file.fd);
  if (now < 0) throw Error(ErrorCode::io, system_error("read", file.path(), errno).what());
  const auto bytes = static_cast<std::uint64_t>(now);
  for (std::uint64_t at = 0; at < bytes;) {
    const auto piece = std::span(block).first(std::min<std::uint64_t>(block.size(), bytes - at));
    file.read(at, piece);
    if (!decoder->take(piece, sink)) return;
    at += piece.size();
  }
  decoder->finish();
}

std::string decompress_head(const RecordFile& file, Compression compression, std::size_t bytes) {
  std::string head;
  if (compression == Compression::none) {  // as many, and no more
    head.resize(bytes);
    const std::int64_t got = read_at(file.fd, std::as_writable_bytes(std::span(head)), 0);
    if (got < 0) throw Error(ErrorCode::io, system_error("read", file.path(), errno).what());
    head.resize(static_cast<std::size_t>(got));
    return head;
  }
  decompress(file, compression, [&](std::span<const std::byte> raw) {
    head.append(reinterpret_cast<const char*>(raw.data()), std::min(raw.size(), bytes - head.size()));
    return head.size() < bytes;
  });
  return head;
}

}  // namespace rota::internal
