#include "formats/hdf5/filters.hpp"

#include <zlib.h>
#include <zstd.h>

#include <cstring>
#include <limits>
#include <new>

namespace rota::internal {
namespace {

// The shuffle filter stores the first bytes of all elements, then all second ones, and so on; bytes that make
// no whole element follow as they are.
template <std::size_t size>
void gather(const std::byte* from, std::size_t count, std::byte* to) {
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t b = 0; b < size; ++b) to[i * size + b] = from[b * count + i];
  }
}

void unshuffle(std::span<const std::byte> from, std::size_t element_bytes, std::span<std::byte> to) {
  const std::size_t count = from.size() / element_bytes;
  const std::size_t whole = count * element_bytes;
  switch (element_bytes) {
    case 2:
      gather<2>(from.data(), count, to.data());
      break;
    case 4:
      gather<4>(from.data(), count, to.data());
      break;
    case 8:
      gather<8>(from.data(), count, to.data());
      break;
    default:
      gather<1>(from.data(), whole, to.data());
  }
  if (whole < from.size()) std::memcpy(to.data() + whole, from.data() + whole, from.size() - whole);
}

std::vector<Hdf5Filter> applied(const Hdf5Dataset& dataset, std::uint32_t filter_mask) {
  std::vector<Hdf5Filter> filters;
  for (std::size_t i = 0; i < dataset.filters.size(); ++i) {
    if ((filter_mask >> i & 1U) == 0) filters.push_back(dataset.filters[i]);
  }
  return filters;
}

}  // namespace

struct Unfilter::Stream {
  z_stream z{};
  Stream() {
    if (inflateInit(&z) != Z_OK) throw std::bad_alloc();
  }
  ~Stream() { inflateEnd(&z); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
};

struct Unfilter::ZstdContext {
  ZSTD_DCtx* context = ZSTD_createDCtx();
  ZstdContext() {
    if (context == nullptr) throw std::bad_alloc();
  }
  ~ZstdContext() { ZSTD_freeDCtx(context); }
  ZstdContext(const ZstdContext&) = delete;
  ZstdContext& operator=(const ZstdContext&) = delete;
};

Unfilter::Unfilter() = default;
Unfilter::~Unfilter() = default;

bool Unfilter::inflate_into(std::span<const std::byte> from, std::span<std::byte> to) {
  if (stream_ == nullptr) {
    stream_ = std::make_unique<Stream>();
  } else if (inflateReset(&stream_->z) != Z_OK) {
    return false;
  }
  z_stream& z = stream_->z;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): zlib only reads it
  z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(from.data()));
  z.avail_in = static_cast<uInt>(from.size());
  z.next_out = reinterpret_cast<Bytef*>(to.data());
  z.avail_out = static_cast<uInt>(to.size());
  return inflate(&z, Z_FINISH) == Z_STREAM_END && z.avail_out == 0;
}

bool Unfilter::unzstd_into(std::span<const std::byte> from, std::span<std::byte> to) {
  if (zstd_ == nullptr) zstd_ = std::make_unique<ZstdContext>();
  return ZSTD_decompressDCtx(zstd_->context, to.data(), to.size(), from.data(), from.size()) == to.size();
}

bool Unfilter::run(const Hdf5Dataset& dataset, std::uint32_t filter_mask, std::span<const std::byte> stored,
                   std::span<std::byte> to) {
  const std::vector<Hdf5Filter> filters = applied(dataset, filter_mask);
  std::span<const std::byte> from = stored;
  for (std::size_t i = filters.size(); i-- > 0;) {
    const std::size_t bytes = filters[i] == Hdf5Filter::shuffle ? from.size() : to.size();
    std::vector<std::byte>& buffer = between_[i % 2];
    if (i > 0) buffer.resize(bytes);
    const std::span<std::byte> next = i > 0 ? std::span(buffer) : to;
    if (next.size() != bytes) return false;
    if (filters[i] == Hdf5Filter::deflate && !inflate_into(from, next)) return false;
    if (filters[i] == Hdf5Filter::zstd && !unzstd_into(from, next)) return false;
    if (filters[i] == Hdf5Filter::shuffle) unshuffle(from, size_of(dataset.dtype), next);
    from = next;
  }
  if (!filters.empty()) return true;
  if (from.size() != to.size()) return false;
  std::memcpy(to.data(), from.data(), from.size());
  return true;
}

}  // namespace rota::internal
