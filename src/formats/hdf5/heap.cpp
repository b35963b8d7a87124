#include "formats/hdf5/heap.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <tuple>

#include "rota/error.hpp"
#include "values/bytes.hpp"

namespace rota::internal {
namespace {

constexpr std::size_t kHeadBytes = 16;     // of a collection, and of each object
constexpr std::size_t kFirstBytes = 4096;  // HDF5 makes none smaller

struct Collection {
  const File& file;
  std::uint64_t address;
  std::vector<std::byte> bytes;

  [[nodiscard]] Error damage() const {
    return file.damage(address, "there is no heap as its text or sequences need it; fetch or write it again");
  }
  // By the head, once that is there.
  [[nodiscard]] std::uint64_t size() const {
    if (bytes.size() < kHeadBytes || std::memcmp(bytes.data(), "GCOL", 4) != 0) throw damage();
    const auto size = load<std::uint64_t>(bytes, 8);
    if (size < kHeadBytes || size > file.bytes() - address) throw damage();
    return size;
  }
  // Object 0 is what is free, and the last one.
  [[nodiscard]] std::span<const std::byte> object(std::uint32_t index) const {
    for (std::size_t at = kHeadBytes; at + kHeadBytes <= bytes.size();) {
      const auto found = load<std::uint16_t>(bytes, at);
      const auto size = load<std::uint64_t>(bytes, at + 8);
      at += kHeadBytes;
      if (found == 0 || size > bytes.size() - at) break;
      if (found == index) return std::span(bytes).subspan(at, size);
      at += (size + 7) / 8 * 8;
    }
    throw damage();
  }
};

}  // namespace

void read_from_heap(const OpenFiles& files, std::vector<HeapRead> reads) {
  std::erase_if(reads, [](const HeapRead& read) { return read.to.empty(); });
  std::ranges::sort(reads, {},
                    [](const HeapRead& read) { return std::tuple(read.file.get(), read.address); });
  std::vector<Collection> heaps;
  for (const HeapRead& read : reads) {
    if (!heaps.empty() && &heaps.back().file == read.file.get() && heaps.back().address == read.address)
      continue;
    const std::uint64_t left = read.file->bytes() - std::min(read.file->bytes(), read.address);
    heaps.push_back(
        {*read.file, read.address, std::vector<std::byte>(std::min<std::uint64_t>(left, kFirstBytes))});
  }
  const auto read_from = [&](std::size_t begin) {
    std::vector<WantedBytes> wanted;
    for (Collection& heap : heaps) {
      if (heap.bytes.size() <= begin) continue;
      wanted.push_back(
          {.file = &heap.file, .offset = heap.address + begin, .to = std::span(heap.bytes).subspan(begin)});
    }
    files.read(wanted);
  };
  read_from(0);
  for (Collection& heap : heaps) heap.bytes.resize(heap.size());
  read_from(kFirstBytes);
  auto heap = heaps.begin();
  for (const HeapRead& read : reads) {
    while (&heap->file != read.file.get() || heap->address != read.address) ++heap;
    const std::span<const std::byte> object = heap->object(read.index);
    if (object.size() < read.to.size()) throw heap->damage();
    std::ranges::copy(object.first(read.to.size()), read.to.begin());
  }
}

}  // namespace rota::internal
