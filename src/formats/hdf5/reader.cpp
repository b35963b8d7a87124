#include "formats/hdf5/reader.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "formats/hdf5/filters.hpp"

namespace rota::internal {

void append(std::vector<FileRange>& ranges, const FileRange& range) {
  if (range.rows.count == 0) return;
  const std::size_t row_bytes = range.dataset->row_bytes();
  if (!ranges.empty() && ranges.back().dataset == range.dataset) {
    PlacedRows& last = ranges.back().rows;
    if (last.first + last.count == range.rows.first &&
        last.to + static_cast<std::size_t>(last.count) * row_bytes == range.rows.to) {
      last.count += range.rows.count;
      return;
    }
  }
  ranges.push_back(range);
}

namespace {

void put_fill(const Hdf5Dataset& dataset, std::span<std::byte> to) {
  const std::size_t element = dataset.fill.size();
  if (element == 0) {
    std::ranges::fill(to, std::byte{0});
    return;
  }
  for (std::size_t i = 0; i < to.size(); i += element)
    std::memcpy(to.data() + i, dataset.fill.data(), element);
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

template <typename Work>
void each_chunk(const EncodedSlab& slab, Work work) {
  const std::int64_t columns = slab.dataset->chunks_per_slab;
  for (std::int64_t column = 0; column < columns; ++column)
    work(column, slab.dataset->find(slab.slab * columns + column));
}

}  // namespace

/// Decodes slabs, and gives out their rows. Keeps its buffers from one to the next. *One thread.*
class SlabDecoder {
 public:
  /// Rows `pieces` of a slab. `fetched` has its chunks as they are stored, and then has those that follow;
  /// null: they are read. Throws as RowReader::read does.
  void decode(const EncodedSlab& slab, std::span<const RowPiece> pieces, const WantedBytes*& fetched) {
    each_chunk(slab, [&](std::int64_t column, const StoredChunk* chunk) {
      if (slab.dataset->storage == Hdf5Storage::by_library) return read(slab, pieces);
      if (chunk == nullptr) {
        for (const RowPiece& piece : pieces) fill(*slab.dataset, piece, window_of(*slab.dataset, column));
        return;
      }
      if (fetched != nullptr) return decode(slab, column, *chunk, (fetched++)->to, pieces);
      stored_.resize(std::max<std::size_t>(stored_.size(), chunk->bytes));
      slab.file->read(chunk->address, std::span(stored_).first(chunk->bytes));
      decode(slab, column, *chunk, std::span(stored_).first(chunk->bytes), pieces);
    });
  }

 private:
  // `chunk`, of which its file has `stored`, is number `column` of the slab.
  void decode(const EncodedSlab& slab, std::int64_t column, const StoredChunk& chunk,
              std::span<const std::byte> stored, std::span<const RowPiece> pieces) {
    decode(slab, column, pieces, [&](std::span<std::byte> to) {
      if (unfilter_.run(*slab.dataset, chunk.filter_mask, stored, to)) return;
      throw slab.file->damage(
          chunk.address,
          "dataset \"{}\": the chunk of {} bytes cannot be decoded; fetch or write the file again",
          slab.dataset->name, chunk.bytes);
    });
  }
  // One that HDF5 reads.
  void read(const EncodedSlab& slab, std::span<const RowPiece> pieces) {
    decode(slab, 0, pieces, [&](std::span<std::byte> to) {
      read_by_library(slab.file->path(), *slab.dataset, slab.slab * slab.dataset->chunk[0], to);
    });
  }
  template <typename DecodeInto>
  void decode(const EncodedSlab& slab, std::int64_t column, std::span<const RowPiece> pieces,
              const DecodeInto& decode_into) {
    const Hdf5Dataset& dataset = *slab.dataset;
    if (dataset.has_whole_rows() && pieces.size() == 1 && pieces[0].count == dataset.chunk[0])
      return decode_into(std::span(pieces[0].to, dataset.chunk_bytes()));
    decoded_.resize(dataset.chunk_bytes());
    decode_into(std::span(decoded_));
    const Window window = window_of(dataset, column);
    for (const RowPiece& piece : pieces) copy(dataset, window, piece);
  }

  void copy(const Hdf5Dataset& dataset, const Window& window, const RowPiece& piece) const {
    const std::size_t row_bytes = dataset.row_bytes();
    const std::size_t in_chunk = dataset.chunk_bytes() / static_cast<std::size_t>(dataset.chunk[0]);
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

namespace {

// Reads slabs that the memory does not have, those of a thread.
class SlabReader {
 public:
  SlabReader(SharedReads& shared, std::span<const EncodedSlab> slabs, std::span<const RowPiece> pieces)
      : shared_(shared), rest_(slabs.begin(), slabs.end()), pieces_(pieces) {
    const MutexLock lock(shared.mutex);
    decoder_ = shared.unused.empty() ? std::make_shared<SlabDecoder>() : shared.unused.back();
    if (!shared.unused.empty()) shared.unused.pop_back();
  }
  ~SlabReader() {
    try {
      const MutexLock lock(shared_.mutex);
      shared_.unused.push_back(std::move(decoder_));
    } catch (const std::bad_alloc&) {  // another will be made
    }
  }

  // Of a storage as many at once as memory is given for; else others could decode what one has claimed.
  void read() {
    constexpr std::size_t kMostBytes = std::size_t{64} << 20;
    const bool is_stored = rest_[0].file->storage() != nullptr;
    while (!rest_.empty()) {
      std::size_t bytes = 0;
      while ((is_stored ? bytes < kMostBytes : claimed_.empty()) && claim_next()) {
        each_chunk(claimed_.back().first, [&](std::int64_t /*column*/, const StoredChunk* chunk) {
          bytes += chunk == nullptr ? 0 : chunk->bytes;
        });
      }
      std::vector<WantedBytes> fetched;
      if (is_stored) fetched = fetch(bytes);
      const WantedBytes* next = fetched.data();
      for (; !claimed_.empty(); claimed_.pop_front()) {
        decode(claimed_.front().first, *claimed_.front().second, next);
      }
    }
  }

 private:
  [[nodiscard]] std::span<const RowPiece> wanted_of(const EncodedSlab& slab) const {
    return pieces_.subspan(slab.first_piece, slab.pieces);
  }

  // Those that other threads decode come last: when this one has nothing to decode, be it for later.
  bool claim_next() {
    for (; !rest_.empty() && (!rest_.front().is_late || claimed_.empty()); rest_.pop_front()) {
      EncodedSlab& slab = rest_.front();
      auto claim = std::make_unique<ChunkMemory::Claim>();
      const auto take = [&](bool waits) {
        return shared_.memory.take(*slab.dataset, wanted_of(slab), waits, *claim);
      };
      auto answer = take(false);
      while (answer == ChunkMemory::Answer::coming && slab.is_late) answer = take(!decode_ahead());
      if (answer == ChunkMemory::Answer::claimed) {
        claimed_.emplace_back(slab, std::move(claim));
        rest_.pop_front();
        if (rest_.empty()) return true;
        each_chunk(rest_.front(), [&](std::int64_t /*column*/, const StoredChunk* chunk) {
          if (chunk != nullptr) rest_.front().file->will_read(chunk->address, chunk->bytes);
        });
        return true;
      }
      if (answer != ChunkMemory::Answer::coming) continue;
      rest_.push_back(slab);
      rest_.back().is_late = true;
    }
    return false;
  }

  // What the plans need next; false where there is nothing, or no room.
  bool decode_ahead() noexcept {
    try {
      ChunkMemory::Claim claim;
      if (!shared_.open) return false;
      const auto next = shared_.memory.take_next(claim);
      if (!next) return false;
      const OpenFiles::SharedFile file = shared_.open(*next->dataset);
      const WantedBytes* none = nullptr;
      decode({file.get(), next->dataset, next->slab, false, 0, 0}, claim, none);
    } catch (...) {  // whoever reads it will be told
    }
    return true;
  }

  // The chunks of all that was claimed, at once.
  std::vector<WantedBytes> fetch(std::size_t bytes) {
    fetched_.resize(bytes);
    std::vector<WantedBytes> wanted;
    std::span<std::byte> left = fetched_;
    for (const auto& [slab, claim] : claimed_) {
      each_chunk(slab, [&, file = slab.file](std::int64_t /*column*/, const StoredChunk* chunk) {
        if (chunk == nullptr) return;
        wanted.push_back({.file = file, .offset = chunk->address, .to = left.first(chunk->bytes)});
        left = left.subspan(chunk->bytes);
      });
    }
    std::vector<WantedBytes> in_order = wanted;
    std::ranges::sort(in_order, &WantedBytes::is_before);
    read_from_storage(in_order);
    return wanted;
  }

  void decode(const EncodedSlab& slab, ChunkMemory::Claim& claim, const WantedBytes*& fetched) {
    const std::span<const RowPiece> wanted = wanted_of(slab);
    std::vector<RowPiece> pieces(claim.kept().begin(), claim.kept().end());
    if (!claim.is_whole()) pieces.insert(pieces.end(), wanted.begin(), wanted.end());
    decoder_->decode(slab, pieces, fetched);
    const auto row_bytes = static_cast<std::ptrdiff_t>(slab.dataset->row_bytes());
    for (const RowPiece& piece : wanted) {
      if (claim.is_whole())
        std::copy_n(pieces[0].to + piece.row * row_bytes, piece.count * row_bytes, piece.to);
    }
    claim.publish();
  }

  SharedReads& shared_;
  std::deque<EncodedSlab> rest_;
  std::span<const RowPiece> pieces_;
  std::deque<std::pair<EncodedSlab, std::unique_ptr<ChunkMemory::Claim>>> claimed_;  // oldest first
  std::vector<std::byte> fetched_;
  std::shared_ptr<SlabDecoder> decoder_;
};

}  // namespace

void RowReader::add(OpenFiles::SharedFile opened, const Hdf5Dataset& dataset,
                    std::span<const PlacedRows> ranges) {
  const DatasetFile& file = *files_.emplace_back(std::move(opened));
  if (dataset.storage == Hdf5Storage::chunked || dataset.storage == Hdf5Storage::by_library)
    return add_chunks(file, dataset, ranges);
  const std::size_t row_bytes = dataset.row_bytes();
  for (const PlacedRows& range : ranges) {
    const std::span to(range.to, static_cast<std::size_t>(range.count) * row_bytes);
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
  const std::size_t first_piece = pieces_.size();
  for (const PlacedRows& range : ranges)
    each_slab(dataset, range, [&](const RowPiece& piece) { pieces_.push_back(piece); });
  const auto first = pieces_.begin() + static_cast<std::ptrdiff_t>(first_piece);
  std::sort(first, pieces_.end(), [](const RowPiece& a, const RowPiece& b) {
    return std::pair(a.slab, a.row) < std::pair(b.slab, b.row);
  });
  for (auto begin = first; begin != pieces_.end();) {
    const auto end =
        std::find_if(begin, pieces_.end(), [&](const RowPiece& piece) { return piece.slab != begin->slab; });
    add_slab(file, dataset, static_cast<std::size_t>(begin - pieces_.begin()),
             static_cast<std::size_t>(end - begin));
    begin = end;
  }
}

void pass_rows(ChunkMemory& memory, std::vector<ChunkMemory::Rows> rows) {
  const auto slab_of = [](const auto& one) { return std::pair(one.dataset, one.slab); };
  std::unordered_map<const Hdf5Dataset*, std::size_t> turns;
  for (const auto& one : rows) turns.emplace(one.dataset, turns.size());
  std::ranges::sort(rows, {},
                    [&](const auto& one) { return std::tuple(turns[one.dataset], one.slab, one.row); });
  std::byte nowhere{};
  std::vector<RowPiece> pieces;
  for (auto next = rows.cbegin(); next != rows.cend();) {
    const auto [dataset, slab] = slab_of(*next);
    pieces.clear();
    for (; next != rows.cend() && next->dataset == dataset && next->slab == slab; ++next)
      pieces.push_back({slab, next->row, next->count, &nowhere});
    ChunkMemory::Claim claim;
    if (memory.take(*dataset, pieces, false, claim) == ChunkMemory::Answer::claimed) claim.publish();
  }
}

void RowReader::add_slab(const DatasetFile& file, const Hdf5Dataset& dataset, std::size_t first,
                         std::size_t count) {
  const std::span pieces = std::span(pieces_).subspan(first, count);
  const std::size_t row_bytes = dataset.row_bytes();
  const std::int64_t slab = pieces[0].slab;
  if (dataset.is_decoded(slab)) {
    encoded_.push_back({&file, &dataset, slab, false, first, count});
    return;
  }
  const StoredChunk* chunk = dataset.find(slab);
  for (const RowPiece& piece : pieces) {
    if (chunk == nullptr) {
      fill(dataset, piece, window_of(dataset, 0));
    } else {
      plain_.push_back({.file = &file,
                        .offset = chunk->address + static_cast<std::uint64_t>(piece.row) * row_bytes,
                        .to = {piece.to, static_cast<std::size_t>(piece.count) * row_bytes}});
    }
  }
}

void RowReader::read(const OpenFiles& files) {
  std::ranges::sort(plain_, &WantedBytes::is_before);
  files.read(plain_);
  if (!encoded_.empty()) {
    SlabReader(shared_, encoded_, pieces_).read();
  }
  files_.clear();
  plain_.clear();
  encoded_.clear();
  pieces_.clear();
}

}  // namespace rota::internal
