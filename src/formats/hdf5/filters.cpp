#include "formats/hdf5/filters.hpp"

#include <fmt/format.h>
#include <liblzf/lzf.h>
#include <lz4.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>

#include "core/bytes.hpp"
#include "core/failure.hpp"
#include "files/descriptor.hpp"

namespace rota::internal {
namespace {

// As registered with The HDF Group, or built in.
constexpr int kDeflate = H5Z_FILTER_DEFLATE;
constexpr int kShuffle = H5Z_FILTER_SHUFFLE;
constexpr int kFletcher32 = H5Z_FILTER_FLETCHER32;
constexpr int kLzf = 32000;
constexpr int kLz4 = 32004;
constexpr int kZstd = 32015;
constexpr std::size_t kChecksumBytes = 4;

bool is_compression(int id) noexcept { return id != kShuffle && id != kFletcher32; }

// ---- shuffle ----

// The shuffle filter stores the first bytes of all elements, then all second ones, and so on; bytes that make
// no whole element follow as they are.
template <std::size_t fixed>
void gather(const std::byte* from, std::size_t count, std::byte* to, std::size_t size) {
  if constexpr (fixed > 0) size = fixed;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t b = 0; b < size; ++b) to[i * size + b] = from[b * count + i];
  }
}

void unshuffle(std::span<const std::byte> from, std::size_t element_bytes, std::span<std::byte> to) {
  const std::size_t count = from.size() / element_bytes;
  const std::size_t whole = count * element_bytes;
  const auto gather_all = element_bytes == 2   ? gather<2>
                          : element_bytes == 4 ? gather<4>
                          : element_bytes == 8 ? gather<8>
                                               : gather<0>;
  gather_all(from.data(), count, to.data(), element_bytes);
  if (whole < from.size()) std::memcpy(to.data() + whole, from.data() + whole, from.size() - whole);
}

// ---- fletcher32 ----

// Of 16-bit words in big-endian order, as HDF5 sums them (HDF5 File Format Specification 3.0, IV.A.2.l).
std::uint32_t fletcher32(std::span<const std::byte> bytes) noexcept {
  const auto fold = [](std::uint32_t sum) { return (sum & 0xffffU) + (sum >> 16U); };
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(bytes[i]); };
  constexpr std::size_t kMostWords = 360;  // before the second sum could overflow
  std::uint32_t first = 0;
  std::uint32_t second = 0;
  std::size_t i = 0;
  while (i + 1 < bytes.size()) {
    for (std::size_t word = 0; word < kMostWords && i + 1 < bytes.size(); ++word, i += 2) {
      first += byte(i) << 8U | byte(i + 1);
      second += first;
    }
    first = fold(first);
    second = fold(second);
  }
  if (i < bytes.size()) {
    first += byte(i) << 8U;
    second += first;
    first = fold(first);
    second = fold(second);
  }
  return fold(second) << 16U | fold(first);
}

// HDF5 1.6.2 and before swapped the bytes of both halves; such files are right, too.
bool has_checksum(std::span<const std::byte> bytes, std::uint32_t stored) noexcept {
  const std::uint32_t sum = fletcher32(bytes);
  const std::uint32_t swapped = (sum & 0x00ff00ffU) << 8U | (sum & 0xff00ff00U) >> 8U;
  return stored == sum || stored == swapped;
}

// ---- compressions ----

bool inflate_into(std::span<const std::byte> from, std::span<std::byte> to) {
  uLongf bytes = to.size();
  const int status = ::uncompress(reinterpret_cast<Bytef*>(to.data()), &bytes,
                                  reinterpret_cast<const Bytef*>(from.data()), from.size());
  if (status == Z_MEM_ERROR) throw std::bad_alloc();
  return status == Z_OK && bytes == to.size();
}

bool unlzf_into(std::span<const std::byte> from, std::span<std::byte> to) {
  constexpr std::size_t kMost = std::numeric_limits<unsigned>::max();
  if (from.empty() || from.size() > kMost || to.size() > kMost) return false;
  return ::lzf_decompress(from.data(), static_cast<unsigned>(from.size()), to.data(),
                          static_cast<unsigned>(to.size())) == to.size();
}

// The size of all, that of a block, then each block behind its size; one of that size is stored as it is. All
// are big-endian (the registered filter's "HDF5_LZ4").
bool unlz4_into(std::span<const std::byte> from, std::span<std::byte> to) {
  constexpr std::size_t kHead = sizeof(std::uint64_t) + sizeof(std::uint32_t);
  if (from.size() < kHead || __builtin_bswap64(load<std::uint64_t>(from, 0)) != to.size()) return false;
  const std::size_t block_bytes = __builtin_bswap32(load<std::uint32_t>(from, sizeof(std::uint64_t)));
  if (block_bytes == 0 || block_bytes > LZ4_MAX_INPUT_SIZE) return false;
  from = from.subspan(kHead);
  while (!to.empty()) {
    if (from.size() < sizeof(std::uint32_t)) return false;
    const std::size_t stored = __builtin_bswap32(load<std::uint32_t>(from, 0));
    const std::size_t bytes = std::min(block_bytes, to.size());
    from = from.subspan(sizeof(std::uint32_t));
    if (stored > from.size() || stored > LZ4_MAX_INPUT_SIZE) return false;
    if (stored == bytes) {
      std::memcpy(to.data(), from.data(), bytes);
    } else if (::LZ4_decompress_safe(reinterpret_cast<const char*>(from.data()),
                                     reinterpret_cast<char*>(to.data()), static_cast<int>(stored),
                                     static_cast<int>(bytes)) != static_cast<int>(bytes)) {
      return false;
    }
    from = from.subspan(stored);
    to = to.subspan(bytes);
  }
  return true;
}

}  // namespace

bool need_library(const std::vector<int>& filters) noexcept {
  constexpr std::array kOwn{kDeflate, kShuffle, kFletcher32, kLzf, kLz4, kZstd};
  const auto is_own = [&](int filter) { return std::ranges::find(kOwn, filter) != kOwn.end(); };
  return !std::ranges::all_of(filters, is_own) || std::ranges::count_if(filters, is_compression) > 1;
}

std::uint64_t most_ratio(int filter) noexcept {
  switch (filter) {
    case kDeflate:  // zlib's technical notes
      return 1032;
    case kZstd:  // of blocks that are one byte repeated (RFC 8878, 3.1.1.2)
      return 32768;
    case kLz4:  // a byte adds 255 to a length
      return 255;
    case kLzf:  // three bytes copy 264
      return 88;
    default:
      return 1;
  }
}

void read_by_library(const std::string& path, const Hdf5Dataset& dataset, std::int64_t first,
                     std::span<std::byte> to) {
  const std::string what = fmt::format("read {}: dataset \"{}\", rows from {} on", path, dataset.name, first);
  for (const auto& [part, bytes] : dataset.parts) {
    if (::access(part.c_str(), R_OK) != 0) throw system_error(what + ", of", part, errno);
  }
  try {
    const auto guard = hdf5::lock();
    const hdf5::File file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), what);
    const hdf5::Dataset opened(H5Dopen2(file.get(), dataset.name.c_str(), H5P_DEFAULT), what);
    const hdf5::Datatype type(H5Dget_type(opened.get()), what);
    const hdf5::Dataspace from(H5Dget_space(opened.get()), what);
    std::vector<hsize_t> count(static_cast<std::size_t>(H5Sget_simple_extent_ndims(from.get())));
    hdf5::check(H5Sget_simple_extent_dims(from.get(), count.data(), nullptr), what);
    std::size_t row_bytes = H5Tget_size(type.get());
    for (std::size_t d = 1; d < count.size(); ++d) row_bytes *= count[d];
    if (row_bytes != dataset.row_bytes() || std::cmp_not_equal(count[0], dataset.rows()))
      throw failure(ErrorCode::corrupt, "{}: it has changed since it was opened; open it anew", what);
    std::vector<hsize_t> start(count.size());
    start[0] = static_cast<hsize_t>(first);
    count[0] = std::min<hsize_t>(count[0] - start[0], to.size() / row_bytes);
    hdf5::check(H5Sselect_hyperslab(from.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
                what);
    const hdf5::Dataspace memory(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr),
                                 what);
    hdf5::check(H5Dread(opened.get(), type.get(), memory.get(), from.get(), H5P_DEFAULT, to.data()), what);
  } catch (const Error& error) {
    throw Error(ErrorCode::corrupt, error.what());
  }
}

bool Unfilter::run(const Hdf5Dataset& dataset, std::uint32_t filter_mask, std::span<const std::byte> stored,
                   std::span<std::byte> to) {
  std::vector<int> filters;
  for (std::size_t i = 0; i < dataset.filters.size(); ++i) {
    if ((filter_mask >> i & 1U) == 0) filters.push_back(dataset.filters[i]);
  }
  if (filters.empty() && stored.size() == to.size()) std::ranges::copy(stored, to.begin());
  if (filters.empty()) return stored.size() == to.size();
  // How large the bytes were before each filter was applied: known up to the compression.
  std::vector<std::size_t> sizes{to.size()};
  for (const int filter : filters) {
    if (is_compression(filter)) break;
    sizes.push_back(sizes.back() + (filter == kFletcher32 ? kChecksumBytes : 0));
  }
  std::span<const std::byte> from = stored;
  for (std::size_t i = filters.size(); i-- > 0;) {
    const int filter = filters[i];
    const std::size_t sum = filter == kFletcher32 ? kChecksumBytes : 0;
    if (from.size() < sum) return false;
    const std::size_t bytes = i < sizes.size() ? sizes[i] : from.size() - sum;
    if (!is_compression(filter) && from.size() != bytes + sum) return false;
    std::vector<std::byte>& buffer = between_.at(i % 2);
    if (i > 0) buffer.resize(bytes);
    const std::span<std::byte> next = i > 0 ? std::span(buffer) : to;
    if (!undo(filter, dataset, from, next)) return false;
    from = next;
  }
  return true;
}

bool Unfilter::undo(int filter, const Hdf5Dataset& dataset, std::span<const std::byte> from,
                    std::span<std::byte> to) {
  switch (filter) {
    case kShuffle:
      unshuffle(from, dataset.type.bytes, to);
      return true;
    case kFletcher32: {
      const auto body = from.first(to.size());
      std::ranges::copy(body, to.begin());
      return has_checksum(body, load<std::uint32_t>(from, to.size()));
    }
    case kDeflate:
      return inflate_into(from, to);
    case kLzf:
      return unlzf_into(from, to);
    case kLz4:
      return unlz4_into(from, to);
    default:
      if (zstd_ == nullptr) zstd_.reset(ZSTD_createDCtx());
      if (zstd_ == nullptr) throw std::bad_alloc();
      return ZSTD_decompressDCtx(zstd_.get(), to.data(), to.size(), from.data(), from.size()) == to.size();
  }
}

}  // namespace rota::internal
