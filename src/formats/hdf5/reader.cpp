#include "formats/hdf5/reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "rota/error.hpp"

namespace rota::internal {
namespace {

void read_bytes(const OpenHdf5& file, const Hdf5Dataset& dataset, std::span<std::byte> to,
                std::uint64_t offset) {
  const std::int64_t got =
      file.memory == nullptr ? read_at(file.fd, to, offset) : file.memory->read_at(to, offset);
  if (got == static_cast<std::int64_t>(to.size())) return;
  const int error = errno;
  const auto what =
      fmt::format("read {}: dataset \"{}\", byte {}", file.files.path(file.index), dataset.name, offset);
  if (got < 0) throw Error(ErrorCode::io, system_error("", what, error).what());
  throw Error(ErrorCode::corrupt,
              fmt::format("{}: the file ends {} bytes short; it was truncated while in use: restore it", what,
                          static_cast<std::int64_t>(to.size()) - got));
}

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
  ChunkReader(const OpenHdf5& file, const Hdf5Dataset& dataset, Unfilter& unfilter)
      : file_(file),
        dataset_(dataset),
        unfilter_(unfilter),
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
    read_bytes(file_, dataset_, {piece.to, static_cast<std::size_t>(piece.count) * row_bytes_},
               chunk.address + static_cast<std::uint64_t>(piece.row) * row_bytes_);
  }

  void decode(const StoredChunk& chunk, std::span<std::byte> to) {
    stored_.resize(chunk.bytes);
    read_bytes(file_, dataset_, stored_, chunk.address);
    if (unfilter_.run(dataset_, chunk.filter_mask, stored_, to)) return;
    throw Error(
        ErrorCode::corrupt,
        fmt::format("read {}: dataset \"{}\", byte {}: the chunk of {} bytes cannot be decoded; fetch or "
                    "write the file again",
                    file_.files.path(file_.index), dataset_.name, chunk.address, chunk.bytes));
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

  const OpenHdf5& file_;
  const Hdf5Dataset& dataset_;
  Unfilter& unfilter_;
  std::size_t row_bytes_;
  std::int64_t slab_rows_;
  std::size_t chunk_row_bytes_;
  std::vector<std::byte> stored_;
  std::vector<std::byte> decoded_;
};

}  // namespace

void read_rows(const OpenHdf5& file, const Hdf5Dataset& dataset, std::span<const PlacedRows> ranges,
               Unfilter& unfilter) {
  const std::size_t row_bytes = dataset.row_bytes();
  if (dataset.storage == Hdf5Storage::chunked) {
    ChunkReader(file, dataset, unfilter).read(ranges);
    return;
  }
  for (const PlacedRows& range : ranges) {
    const std::span<std::byte> to = memory_of(range, row_bytes);
    const std::size_t offset = static_cast<std::size_t>(range.first) * row_bytes;
    if (dataset.storage == Hdf5Storage::contiguous) {
      read_bytes(file, dataset, to, dataset.address + offset);
    } else if (dataset.storage == Hdf5Storage::absent) {
      put_fill(dataset, to);
    } else if (!to.empty()) {
      std::memcpy(to.data(), dataset.contents.data() + offset, to.size());
    }
  }
}

}  // namespace rota::internal
