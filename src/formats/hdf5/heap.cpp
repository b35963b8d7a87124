#include "formats/hdf5/reader.hpp"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <unordered_map>

#include "core/bytes.hpp"
#include "rota/error.hpp"

namespace rota::internal {
namespace {

constexpr std::size_t kHeadBytes = 16;     // of a collection, and of each object
constexpr std::size_t kFirstBytes = 4096;  // HDF5 makes none smaller

struct Collection {
  const DatasetFile& file;
  std::uint64_t address;
  std::vector<std::byte> bytes;

  [[nodiscard]] bool has(const HeapRead& read) const noexcept {
    return &file == read.file.get() && address == read.address;
  }
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
  [[nodiscard]] std::unordered_map<std::uint32_t, std::span<const std::byte>> objects() const {
    std::unordered_map<std::uint32_t, std::span<const std::byte>> found;
    for (std::size_t at = kHeadBytes; at + kHeadBytes <= bytes.size();) {
      const auto index = load<std::uint16_t>(bytes, at);
      const auto size = load<std::uint64_t>(bytes, at + 8);
      at += kHeadBytes;
      if (index == 0 || size > bytes.size() - at) break;
      found.emplace(index, std::span(bytes).subspan(at, size));
      at += (size + 7) / 8 * 8;
    }
    return found;
  }
};

void read_from(const OpenFiles& files, std::span<Collection> heaps, std::size_t begin) {
  std::vector<WantedBytes> wanted;
  for (Collection& heap : heaps) {
    if (heap.bytes.size() <= begin) continue;
    wanted.push_back(
        {.file = &heap.file, .offset = heap.address + begin, .to = std::span(heap.bytes).subspan(begin)});
  }
  files.read(wanted);
}

}  // namespace

void read_from_heap(const OpenFiles& files, std::vector<HeapRead> reads) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;  // at once
  std::erase_if(reads, [](const HeapRead& read) { return read.to.empty(); });
  std::ranges::sort(reads, {},
                    [](const HeapRead& read) { return std::tuple(read.file.get(), read.address); });
  std::vector<Collection> heaps;
  for (const HeapRead& read : reads) {
    if (!heaps.empty() && heaps.back().has(read)) continue;
    const std::uint64_t left = read.file->bytes() - std::min(read.file->bytes(), read.address);
    heaps.push_back(
        {*read.file, read.address, std::vector<std::byte>(std::min<std::uint64_t>(left, kFirstBytes))});
  }
  read_from(files, heaps, 0);
  auto read = reads.begin();
  for (std::size_t first = 0; first < heaps.size();) {
    std::size_t end = first;
    for (std::uint64_t bytes = 0;
         end < heaps.size() && (end == first || bytes + heaps[end].size() <= kMostBytes);) {
      bytes += heaps[end].size();
      heaps[end].bytes.resize(heaps[end].size());
      ++end;
    }
    const auto group = std::span(heaps).subspan(first, end - first);
    read_from(files, group, kFirstBytes);
    for (Collection& heap : group) {
      const auto objects = heap.objects();
      for (; read != reads.end() && heap.has(*read); ++read) {
        const auto object = objects.find(read->index);
        if (object == objects.end() || object->second.size() < read->to.size()) throw heap.damage();
        std::ranges::copy(object->second.first(read->to.size()), read->to.begin());
      }
      heap.bytes = {};
    }
    first = end;
  }
}

}  // namespace rota::internal
