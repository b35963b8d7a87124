#include "formats/hdf5/reader.hpp"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "core/owned.hpp"
#include "rota/error.hpp"

namespace rota::internal {
namespace {

// The shuffle filter stores the first bytes of all elements, then all second ones, and so on; bytes that make
// no whole element follow as they are.
template <std::size_t fixed>
void gather(const std::byte* from, std::size_t count, std::byte* to, std::size_t size = fixed) {
  if constexpr (fixed > 0) size = fixed;
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
      gather<0>(from.data(), count, to.data(), element_bytes);
  }
  if (whole < from.size()) std::memcpy(to.data() + whole, from.data() + whole, from.size() - whole);
}

/// Undoes HDF5's deflate, zstd and shuffle filters. Keeps its buffers from one chunk to the next.
class Unfilter {
 public:
  /// Undoes the filters of `dataset` that `filter_mask` did not leave out, from `stored` into `to`, which has
  /// the size of a chunk. False where `stored` is not what those filters make of such a chunk.
  [[nodiscard]] bool run(const Hdf5Dataset& dataset, std::uint32_t filter_mask,
                         std::span<const std::byte> stored, std::span<std::byte> to) {
    std::vector<Hdf5Filter> filters;
    for (std::size_t i = 0; i < dataset.filters.size(); ++i) {
      if ((filter_mask >> i & 1U) == 0) filters.push_back(dataset.filters[i]);
    }
    std::span<const std::byte> from = stored;
    for (std::size_t i = filters.size(); i-- > 0;) {
      const std::size_t bytes = filters[i] == Hdf5Filter::shuffle ? from.size() : to.size();
      std::vector<std::byte>& buffer = between_[i % 2];
      if (i > 0) buffer.resize(bytes);
      const std::span<std::byte> next = i > 0 ? std::span(buffer) : to;
      if (next.size() != bytes) return false;
      if (filters[i] == Hdf5Filter::deflate && !inflate_into(from, next)) return false;
      if (filters[i] == Hdf5Filter::zstd && !unzstd_into(from, next)) return false;
      if (filters[i] == Hdf5Filter::shuffle) unshuffle(from, dataset.type.bytes, next);
      from = next;
    }
    if (!filters.empty()) return true;
    if (from.size() != to.size()) return false;
    std::memcpy(to.data(), from.data(), from.size());
    return true;
  }

 private:
  static bool inflate_into(std::span<const std::byte> from, std::span<std::byte> to) {
    uLongf bytes = to.size();
    const int status = ::uncompress(reinterpret_cast<Bytef*>(to.data()), &bytes,
                                    reinterpret_cast<const Bytef*>(from.data()), from.size());
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    return status == Z_OK && bytes == to.size();
  }
  bool unzstd_into(std::span<const std::byte> from, std::span<std::byte> to) {
    if (zstd_ == nullptr) zstd_.reset(ZSTD_createDCtx());
    if (zstd_ == nullptr) throw std::bad_alloc();
    return ZSTD_decompressDCtx(zstd_.get(), to.data(), to.size(), from.data(), from.size()) == to.size();
  }

  std::unique_ptr<ZSTD_DCtx, FreeBy<ZSTD_freeDCtx>> zstd_;  // made when first needed
  std::array<std::vector<std::byte>, 2> between_;
};

void put_fill(const Hdf5Dataset& dataset, std::span<std::byte> to) {
  const std::size_t element = dataset.fill.size();
  if (element == 0) {
    std::ranges::fill(to, std::byte{0});
    return;
  }
  for (std::size_t i = 0; i < to.size(); i += element)
    std::memcpy(to.data() + i, dataset.fill.data(), element);
}

std::span<std::byte> memory_of(const PlacedRows& range, std::size_t row_bytes) {
  return {range.to, static_cast<std::size_t>(range.count) * row_bytes};
}

// A stretch of a row that lies side by side in one chunk too.
struct Strip {
  std::size_t in_row;    // byte offset
  std::size_t in_chunk;  // byte offset from where the row begins in the chunk
};

// The part of every row that one of the chunks of a slab holds.
struct Window {
  std::vector<Strip> strips;
  std::size_t strip_bytes = 0;
};

// `column` numbers the chunks of a slab, row-major over the dimensions after the first.
Window window_of(const Hdf5Dataset& dataset, std::int64_t column) {
  std::size_t row_stride = size_of(dataset.dtype);    // bytes of one step along dimension d, in a row
  std::size_t chunk_stride = size_of(dataset.dtype);  // and in a chunk
  Window window{{{0, 0}}, size_of(dataset.dtype)};
  bool is_side_by_side = true;  // up to here, rows and chunks run in step
  for (std::size_t d = dataset.extent.size(); d-- > 1;) {
    const std::int64_t columns = (dataset.extent[d] + dataset.chunk[d] - 1) / dataset.chunk[d];
    const std::int64_t start = column % columns * dataset.chunk[d];
    const auto length = static_cast<std::size_t>(std::min(dataset.chunk[d], dataset.extent[d] - start));
    column /= columns;
    for (Strip& strip : window.strips) strip.in_row += static_cast<std::size_t>(start) * row_stride;
    if (is_side_by_side) {
      window.strip_bytes = length * row_stride;
    } else {
      const std::vector<Strip> inner = window.strips;
      for (std::size_t i = 1; i < length; ++i) {
        for (const Strip& strip : inner) {
          window.strips.push_back({strip.in_row + i * row_stride, strip.in_chunk + i * chunk_stride});
        }
      }
    }
    is_side_by_side = is_side_by_side && dataset.extent[d] == dataset.chunk[d];
    row_stride *= static_cast<std::size_t>(dataset.extent[d]);
    chunk_stride *= static_cast<std::size_t>(dataset.chunk[d]);
  }
  return window;
}

void fill(const Hdf5Dataset& dataset, const RowPiece& piece, const Window& window) {
  const std::size_t row_bytes = dataset.row_bytes();
  for (std::size_t row = 0; row < static_cast<std::size_t>(piece.count); ++row) {
    for (const Strip& strip : window.strips) {
      put_fill(dataset, {piece.to + row * row_bytes + strip.in_row, window.strip_bytes});
    }
  }
}

// Stored as it is, so that rows can be read one by one.
bool is_plain(const Hdf5Dataset& dataset, const StoredChunk& chunk) noexcept {
  for (std::size_t i = 0; i < dataset.filters.size(); ++i) {
    if ((chunk.filter_mask >> i & 1U) == 0) return false;
  }
  return chunk.bytes == dataset.chunk_bytes();
}

/// Decodes chunks, and gives out their rows. Keeps its buffers from one to the next.
class ChunkDecoder {
 public:
  /// Reads it from its file.
  void read(const EncodedChunk& wanted, std::span<const RowPiece> pieces) {
    stored_.resize(wanted.chunk->bytes);
    wanted.file->read(wanted.chunk->address, stored_);
    decode(wanted, stored_, pieces);
  }
  /// `stored` is what its file has.
  void decode(const EncodedChunk& wanted, std::span<const std::byte> stored,
              std::span<const RowPiece> pieces) {
    const Hdf5Dataset& dataset = *wanted.dataset;
    if (wanted.has_whole_rows && pieces.size() == 1 && pieces[0].count == dataset.chunk[0]) {
      decode(wanted, stored, std::span(pieces[0].to, dataset.chunk_bytes()));
    } else {
      decoded_.resize(dataset.chunk_bytes());
      decode(wanted, stored, std::span(decoded_));
      for (const RowPiece& piece : pieces) copy(wanted, piece);
    }
  }

 private:
  void decode(const EncodedChunk& wanted, std::span<const std::byte> stored, std::span<std::byte> to) {
    const StoredChunk& chunk = *wanted.chunk;
    if (unfilter_.run(*wanted.dataset, chunk.filter_mask, stored, to)) return;
    throw wanted.file->damage(
        chunk.address,
        "dataset \"{}\": the chunk of {} bytes cannot be decoded; fetch or write the file again",
        wanted.dataset->name, chunk.bytes);
  }

  void copy(const EncodedChunk& wanted, const RowPiece& piece) const {
    const std::size_t row_bytes = wanted.dataset->row_bytes();
    const std::size_t in_chunk =
        wanted.dataset->chunk_bytes() / static_cast<std::size_t>(wanted.dataset->chunk[0]);
    const Window window = window_of(*wanted.dataset, wanted.column);
    const std::byte* from = decoded_.data() + static_cast<std::size_t>(piece.row) * in_chunk;
    for (std::size_t row = 0; row < static_cast<std::size_t>(piece.count); ++row) {
      for (const Strip& strip : window.strips) {
        std::memcpy(piece.to + row * row_bytes + strip.in_row, from + row * in_chunk + strip.in_chunk,
                    window.strip_bytes);
      }
    }
  }

  Unfilter unfilter_;
  std::vector<std::byte> stored_;
  std::vector<std::byte> decoded_;
};

}  // namespace

void RowReader::add(OpenFiles::SharedFile opened, const Hdf5Dataset& dataset,
                    std::span<const PlacedRows> ranges) {
  const DatasetFile& file = *files_.emplace_back(std::move(opened));
  if (dataset.storage == Hdf5Storage::chunked) return add_chunks(file, dataset, ranges);
  const std::size_t row_bytes = dataset.row_bytes();
  for (const PlacedRows& range : ranges) {
    const std::span<std::byte> to = memory_of(range, row_bytes);
    const std::size_t offset = static_cast<std::size_t>(range.first) * row_bytes;
    if (dataset.storage == Hdf5Storage::contiguous) {
      plain_.push_back({.file = &file, .offset = dataset.address + offset, .to = to});
    } else if (dataset.storage == Hdf5Storage::absent) {
      put_fill(dataset, to);
    } else if (!to.empty()) {
      std::memcpy(to.data(), dataset.contents.data() + offset, to.size());
    }
  }
}

// Cut at slabs, the rows that the same chunks share.
void RowReader::add_chunks(const DatasetFile& file, const Hdf5Dataset& dataset,
                           std::span<const PlacedRows> ranges) {
  const std::int64_t slab_rows = dataset.chunk[0];
  const std::size_t first_piece = pieces_.size();
  for (const PlacedRows& range : ranges) {
    std::byte* to = range.to;
    for (std::int64_t row = range.first; row < range.first + range.count;) {
      const std::int64_t in_slab = row % slab_rows;
      const std::int64_t count = std::min(slab_rows - in_slab, range.first + range.count - row);
      pieces_.push_back({row / slab_rows, in_slab, count, to});
      to += static_cast<std::size_t>(count) * dataset.row_bytes();
      row += count;
    }
  }
  const auto first = pieces_.begin() + static_cast<std::ptrdiff_t>(first_piece);
  std::sort(first, pieces_.end(), [](const RowPiece& a, const RowPiece& b) { return a.slab < b.slab; });
  for (auto begin = first; begin != pieces_.end();) {
    const auto end =
        std::find_if(begin, pieces_.end(), [&](const RowPiece& piece) { return piece.slab != begin->slab; });
    add_slab(file, dataset, static_cast<std::size_t>(begin - pieces_.begin()),
             static_cast<std::size_t>(end - begin));
    begin = end;
  }
}

void RowReader::add_slab(const DatasetFile& file, const Hdf5Dataset& dataset, std::size_t first,
                         std::size_t count) {
  const std::span pieces = std::span(pieces_).subspan(first, count);
  const std::size_t row_bytes = dataset.row_bytes();
  const bool has_plain_rows = dataset.chunk_bytes() == row_bytes * static_cast<std::size_t>(dataset.chunk[0]);
  for (std::int64_t column = 0; column < dataset.chunks_per_slab; ++column) {
    const StoredChunk* chunk = dataset.find(pieces[0].slab * dataset.chunks_per_slab + column);
    const bool has_whole_rows = has_plain_rows && window_of(dataset, column).strip_bytes == row_bytes;
    if (chunk == nullptr) {
      for (const RowPiece& piece : pieces) fill(dataset, piece, window_of(dataset, column));
    } else if (has_whole_rows && is_plain(dataset, *chunk)) {
      for (const RowPiece& piece : pieces) {
        plain_.push_back({.file = &file,
                          .offset = chunk->address + static_cast<std::uint64_t>(piece.row) * row_bytes,
                          .to = {piece.to, static_cast<std::size_t>(piece.count) * row_bytes}});
      }
    } else {
      encoded_.push_back({&file, &dataset, chunk, column, has_whole_rows, first, count});
    }
  }
}

void RowReader::read(const OpenFiles& files) {
  std::ranges::sort(plain_, [](const WantedBytes& a, const WantedBytes& b) {
    return a.file != b.file ? std::less<>()(a.file, b.file) : a.offset < b.offset;
  });
  files.read(plain_);
  if (!encoded_.empty() && encoded_[0].file->storage() != nullptr) {
    read_stored_chunks();
  } else {
    read_chunks();
  }
  files_.clear();
  plain_.clear();
  encoded_.clear();
  pieces_.clear();
}

// As many at once as memory is given for.
void RowReader::read_stored_chunks() {
  constexpr std::size_t kMostBytes = std::size_t{64} << 20;
  std::ranges::sort(encoded_, [](const EncodedChunk& a, const EncodedChunk& b) {
    return a.file != b.file ? std::less<>()(a.file, b.file) : a.chunk->address < b.chunk->address;
  });
  ChunkDecoder decoder;
  std::vector<std::byte> stored;
  std::vector<WantedBytes> wanted;
  for (std::span<const EncodedChunk> rest = encoded_; !rest.empty();) {
    std::size_t count = 0;
    std::size_t bytes = 0;
    for (; count < rest.size() && (count == 0 || bytes + rest[count].chunk->bytes <= kMostBytes); ++count)
      bytes += rest[count].chunk->bytes;
    stored.resize(bytes);
    wanted.clear();
    std::span<std::byte> left = stored;
    for (const EncodedChunk& one : rest.first(count)) {
      wanted.push_back({.file = one.file, .offset = one.chunk->address, .to = left.first(one.chunk->bytes)});
      left = left.subspan(one.chunk->bytes);
    }
    read_from_storage(wanted);
    for (std::size_t i = 0; i < count; ++i) decoder.decode(rest[i], wanted[i].to, pieces_of(rest[i]));
    rest = rest.subspan(count);
  }
}

void RowReader::read_chunks() {
  ChunkDecoder decoder;
  auto next = encoded_.begin();
  auto oldest = encoded_.begin();
  const auto begin = [&]() -> std::optional<std::size_t> {
    if (next == encoded_.end()) return std::nullopt;
    const EncodedChunk& wanted = *next++;
    wanted.file->will_read(wanted.chunk->address, wanted.chunk->bytes);
    return wanted.chunk->bytes;
  };
  read_ahead(begin, [&] {
    const EncodedChunk& wanted = *oldest++;
    decoder.read(wanted, pieces_of(wanted));
  });
}

}  // namespace rota::internal
