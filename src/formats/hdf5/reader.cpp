#include "formats/hdf5/reader.hpp"

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "rota/error.hpp"
#include "values/owned.hpp"

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
      if (filters[i] == Hdf5Filter::shuffle) unshuffle(from, size_of(dataset.dtype), next);
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

// Rows of one slab, the chunks that share the same rows.
struct RowPiece {
  std::int64_t slab = 0;
  std::int64_t row = 0;  // in the slab
  std::int64_t count = 0;
  std::byte* to = nullptr;
};

class ChunkReader {
 public:
  ChunkReader(const RecordFile& file, const Hdf5Dataset& dataset)
      : file_(file),
        dataset_(dataset),
        row_bytes_(dataset.row_bytes()),
        slab_rows_(dataset.chunk[0]),
        chunk_row_bytes_(dataset.chunk_bytes() / static_cast<std::size_t>(slab_rows_)) {}

  void read(std::span<const PlacedRows> ranges) {
    std::vector<RowPiece> pieces;
    pieces.reserve(ranges.size());
    for (const PlacedRows& range : ranges) cut(range, pieces);
    std::sort(pieces.begin(), pieces.end(),
              [](const RowPiece& a, const RowPiece& b) { return a.slab < b.slab; });
    for (auto first = pieces.begin(); first != pieces.end();) {
      const auto last =
          std::find_if(first, pieces.end(), [&](const RowPiece& piece) { return piece.slab != first->slab; });
      read_slab({first, last});
      first = last;
    }
  }

 private:
  void cut(const PlacedRows& range, std::vector<RowPiece>& pieces) const {
    std::byte* to = range.to;
    const std::int64_t end = range.first + range.count;
    for (std::int64_t row = range.first; row < end;) {
      const std::int64_t in_slab = row % slab_rows_;
      const std::int64_t count = std::min(slab_rows_ - in_slab, end - row);
      pieces.push_back({row / slab_rows_, in_slab, count, to});
      to += static_cast<std::size_t>(count) * row_bytes_;
      row += count;
    }
  }

  void read_slab(std::span<const RowPiece> pieces) {
    for (std::int64_t column = 0; column < dataset_.chunks_per_slab; ++column) {
      const StoredChunk* chunk = dataset_.find(pieces[0].slab * dataset_.chunks_per_slab + column);
      const Window window = window_of(dataset_, column);
      const bool has_whole_rows = window.strip_bytes == row_bytes_ && chunk_row_bytes_ == row_bytes_;
      if (chunk == nullptr) {
        for (const RowPiece& piece : pieces) fill(piece, window);
      } else if (has_whole_rows && is_plain(*chunk)) {
        for (const RowPiece& piece : pieces) read_plain(piece, *chunk);
      } else if (has_whole_rows && pieces.size() == 1 && pieces[0].count == slab_rows_) {
        decode(*chunk, {pieces[0].to, dataset_.chunk_bytes()});
      } else {
        decoded_.resize(dataset_.chunk_bytes());
        decode(*chunk, decoded_);
        for (const RowPiece& piece : pieces) copy(piece, window);
      }
    }
  }

  // Stored as it is, so that rows can be read one by one.
  [[nodiscard]] bool is_plain(const StoredChunk& chunk) const noexcept {
    for (std::size_t i = 0; i < dataset_.filters.size(); ++i) {
      if ((chunk.filter_mask >> i & 1U) == 0) return false;
    }
    return chunk.bytes == dataset_.chunk_bytes();
  }

  void read_plain(const RowPiece& piece, const StoredChunk& chunk) const {
    file_.read(chunk.address + static_cast<std::uint64_t>(piece.row) * row_bytes_,
               {piece.to, static_cast<std::size_t>(piece.count) * row_bytes_});
  }

  void decode(const StoredChunk& chunk, std::span<std::byte> to) {
    stored_.resize(chunk.bytes);
    file_.read(chunk.address, stored_);
    if (unfilter_.run(dataset_, chunk.filter_mask, stored_, to)) return;
    throw file_.damage(chunk.address, fmt::format("dataset \"{}\": the chunk of {} bytes cannot be decoded; "
                                                  "fetch or write the file again",
                                                  dataset_.name, chunk.bytes));
  }

  void fill(const RowPiece& piece, const Window& window) const {
    for (std::size_t row = 0; row < static_cast<std::size_t>(piece.count); ++row) {
      for (const Strip& strip : window.strips) {
        put_fill(dataset_, {piece.to + row * row_bytes_ + strip.in_row, window.strip_bytes});
      }
    }
  }

  void copy(const RowPiece& piece, const Window& window) const {
    const std::byte* from = decoded_.data() + static_cast<std::size_t>(piece.row) * chunk_row_bytes_;
    for (std::size_t row = 0; row < static_cast<std::size_t>(piece.count); ++row) {
      for (const Strip& strip : window.strips) {
        std::memcpy(piece.to + row * row_bytes_ + strip.in_row,
                    from + row * chunk_row_bytes_ + strip.in_chunk, window.strip_bytes);
      }
    }
  }

  const RecordFile& file_;
  const Hdf5Dataset& dataset_;
  Unfilter unfilter_;
  std::size_t row_bytes_;
  std::int64_t slab_rows_;
  std::size_t chunk_row_bytes_;
  std::vector<std::byte> stored_;
  std::vector<std::byte> decoded_;
};

}  // namespace

void read_rows(const RecordFile& file, const Hdf5Dataset& dataset, std::span<const PlacedRows> ranges) {
  const std::size_t row_bytes = dataset.row_bytes();
  if (dataset.storage == Hdf5Storage::chunked) {
    ChunkReader(file, dataset).read(ranges);
    return;
  }
  for (const PlacedRows& range : ranges) {
    const std::span<std::byte> to = memory_of(range, row_bytes);
    const std::size_t offset = static_cast<std::size_t>(range.first) * row_bytes;
    if (dataset.storage == Hdf5Storage::contiguous) {
      file.read(dataset.address + offset, to);
    } else if (dataset.storage == Hdf5Storage::absent) {
      put_fill(dataset, to);
    } else if (!to.empty()) {
      std::memcpy(to.data(), dataset.contents.data() + offset, to.size());
    }
  }
}

}  // namespace rota::internal
