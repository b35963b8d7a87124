#include <algorithm>
#include <numeric>

#include "formats/hdf5/layout.hpp"

namespace rota::internal {
namespace {

std::size_t product(const std::vector<std::int64_t>& extents, std::size_t from, std::size_t start) {
  return std::accumulate(extents.begin() + static_cast<std::ptrdiff_t>(from), extents.end(), start,
                         [](std::size_t a, std::int64_t b) { return a * static_cast<std::size_t>(b); });
}

}  // namespace

std::size_t Hdf5Dataset::row_bytes() const noexcept { return product(extent, 1, size_of(dtype)); }

std::int64_t Hdf5Dataset::unwritten_chunks() const noexcept {
  if (storage != Hdf5Storage::absent && storage != Hdf5Storage::chunked) return 0;
  if (product(extent, 0, 1) == 0) return 0;
  return (chunk.empty() ? 1 : grid_chunks()) - std::ssize(chunks);
}

bool Hdf5Dataset::is_decoded(std::int64_t slab) const noexcept {
  if (!is_decoded() || storage == Hdf5Storage::by_library || !has_whole_rows()) return is_decoded();
  const StoredChunk* stored = find(slab);
  const auto all =
      static_cast<std::uint32_t>((std::uint64_t{1} << std::min<std::size_t>(filters.size(), 32)) - 1);
  const bool is_plain =
      stored != nullptr && (stored->filter_mask & all) == all && stored->bytes == chunk_bytes();
  return stored != nullptr && !is_plain;
}

std::size_t Hdf5Dataset::chunk_bytes() const noexcept { return product(chunk, 0, size_of(dtype)); }

const StoredChunk* Hdf5Dataset::find(std::int64_t number) const noexcept {
  const auto guess = static_cast<std::size_t>(number);
  if (guess < chunks.size() && chunks[guess].number == number) return &chunks[guess];
  const auto found =
      std::lower_bound(chunks.begin(), chunks.end(), number,
                       [](const StoredChunk& stored, std::int64_t n) { return stored.number < n; });
  return found != chunks.end() && found->number == number ? &*found : nullptr;
}

}  // namespace rota::internal
