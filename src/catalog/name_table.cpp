#include "catalog/name_table.hpp"

#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <limits>
#include <new>
#include <utility>

#include "core/bytes.hpp"
#include "core/failure.hpp"
#include "core/owned.hpp"

namespace rota::internal {
namespace {

// The bytes of a table: the blocks; where each ends, counted from the first; the number of names. A block,
// decompressed: of each name the bytes that its beginning and its end have in common with the name before,
// and how many are between (three arrays of uint16); then all that is between. Every 64th name stands alone.
static_assert(std::endian::native == std::endian::little);

constexpr std::size_t kAloneEvery = 64;
constexpr std::size_t kArrays = 3;
constexpr std::size_t kMostNameBytes = std::numeric_limits<std::uint16_t>::max();
// A block of the longest names there can be.
constexpr std::size_t kMostBlockBytes =
    NameTable::kBlockNames * (kArrays * sizeof(std::uint16_t) + kMostNameBytes);
constexpr int kLevel = 1;

// Word i, counted from the end.
std::uint64_t last_word(std::span<const std::byte> bytes, std::size_t i) {
  return load<std::uint64_t>(bytes, bytes.size() - (i + 1) * sizeof(std::uint64_t));
}

std::size_t blocks_of(std::size_t names) {
  return names / NameTable::kBlockNames + (names % NameTable::kBlockNames == 0 ? 0 : 1);
}

[[noreturn]] void fail_table() {
  throw Error(ErrorCode::corrupt, "read a table of file names: it is damaged; list the files again");
}

void add_bytes(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

}  // namespace

NameTable::NameTable() noexcept {
  static constexpr std::array<std::byte, sizeof(std::uint64_t)> kNoNames{};
  bytes_ = kNoNames;
}

NameTable::NameTable(std::span<const std::byte> bytes, std::shared_ptr<const void> owner)
    : bytes_(bytes), owner_(std::move(owner)) {
  if (bytes_.size() < sizeof(std::uint64_t)) fail_table();
  size_ = last_word(bytes_, 0);
  const std::size_t most_blocks = bytes_.size() / sizeof(std::uint64_t) - 1;
  if (size_ > most_blocks * kBlockNames) fail_table();
  const std::size_t blocks = blocks_of(size_);
  const std::size_t data = bytes_.size() - (1 + blocks) * sizeof(std::uint64_t);
  std::uint64_t end = 0;
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::uint64_t next = last_word(bytes_, blocks - b);
    if (next < end || next > data) fail_table();
    end = next;
  }
  if (end != data) fail_table();
}

std::span<const std::byte> NameTable::block(std::size_t b) const {
  const std::size_t after = blocks_of(size_) - b;
  const std::uint64_t begin = b == 0 ? 0 : last_word(bytes_, after + 1);
  return bytes_.subspan(begin, last_word(bytes_, after) - begin);
}

std::string NameTable::operator[](std::size_t i) const { return NameReader(*this)[i]; }

struct NameTableBuilder::Compressor {
  Compressor() : context(ZSTD_createCCtx()), digest(XXH3_createState()) {
    if (context == nullptr || digest == nullptr || XXH3_128bits_reset(digest.get()) != XXH_OK)
      throw std::bad_alloc();
  }

  std::unique_ptr<ZSTD_CCtx, FreeBy<ZSTD_freeCCtx>> context;
  std::unique_ptr<XXH3_state_t, FreeBy<XXH3_freeState>> digest;  // of names in full blocks
  std::vector<std::byte> raw;
  std::vector<std::byte> compressed;
};

NameTableBuilder::NameTableBuilder(BlockSink sink)
    : compressor_(std::make_unique<Compressor>()), sink_(std::move(sink)) {
  if (!sink_) sink_ = [this](std::span<const std::byte> block) { add_bytes(kept_, block); };
}
NameTableBuilder::~NameTableBuilder() = default;

void NameTableBuilder::add(std::string_view directory, std::string_view name) {
  const std::size_t begin = whole_.size();
  whole_.append(directory).append(name);
  const std::string_view next = std::string_view(whole_).substr(begin);
  if (next.size() > kMostNameBytes) {
    const std::string shown(next.substr(0, 100));
    const std::size_t bytes = next.size();
    whole_.resize(begin);
    throw failure(ErrorCode::unsupported, "list {}...: its path has {} bytes; at most {} are supported",
                  shown, bytes, kMostNameBytes);
  }
  std::size_t prefix = 0;
  std::size_t suffix = 0;
  if (middles_.size() % kAloneEvery != 0) {
    const std::string_view last = std::string_view(whole_).substr(last_at_, begin - 1 - last_at_);
    prefix = static_cast<std::size_t>(std::ranges::mismatch(last, next).in1 - last.begin());
    const auto rest = static_cast<std::ptrdiff_t>(prefix);
    suffix = static_cast<std::size_t>(
        std::mismatch(last.rbegin(), last.rend() - rest, next.rbegin(), next.rend() - rest).first -
        last.rbegin());
  }
  const std::size_t middle = next.size() - prefix - suffix;
  prefixes_.push_back(static_cast<std::uint16_t>(prefix));
  suffixes_.push_back(static_cast<std::uint16_t>(suffix));
  middles_.push_back(static_cast<std::uint16_t>(middle));
  text_.append(next.substr(prefix, middle));
  last_at_ = begin;
  whole_.push_back('\0');
  ++size_;
  if (middles_.size() == NameTable::kBlockNames) end_block();
}

void NameTableBuilder::end_block() {
  XXH3_128bits_update(compressor_->digest.get(), whole_.data(), whole_.size());
  whole_.clear();
  std::vector<std::byte>& raw = compressor_->raw;
  raw.clear();
  for (auto* array : {&prefixes_, &suffixes_, &middles_}) {
    add_bytes(raw, std::as_bytes(std::span(*array)));
    array->clear();
  }
  add_bytes(raw, std::as_bytes(std::span(text_)));
  text_.clear();
  std::vector<std::byte>& compressed = compressor_->compressed;
  compressed.resize(ZSTD_compressBound(raw.size()));
  const std::size_t size = ZSTD_compressCCtx(compressor_->context.get(), compressed.data(), compressed.size(),
                                             raw.data(), raw.size(), kLevel);
  if (ZSTD_isError(size) != 0) throw std::bad_alloc();  // there is room: it can lack memory only
  ends_.push_back((ends_.empty() ? 0 : ends_.back()) + size);
  sink_(std::span(compressed).first(size));
}

NameTable NameTableBuilder::finish() {
  const std::vector<std::byte> after = end();
  const auto bytes = std::make_shared<std::vector<std::byte>>(std::move(kept_));
  add_bytes(*bytes, after);
  return {std::span<const std::byte>(*bytes), bytes};
}

Fingerprint NameTableBuilder::digest() const {
  assert(whole_.empty());
  const XXH128_hash_t digest = XXH3_128bits_digest(compressor_->digest.get());
  return {.high = digest.high64, .low = digest.low64};
}

std::vector<std::byte> NameTableBuilder::end() {
  if (!middles_.empty()) end_block();
  ByteWriter bytes;
  bytes.add_bytes(std::as_bytes(std::span(ends_)));
  bytes.add<std::uint64_t>(size_);
  return std::move(bytes).take();
}

NameReader::NameReader(const NameTable& table) : table_(&table), context_(ZSTD_createDCtx(), &ZSTD_freeDCtx) {
  if (context_ == nullptr) throw std::bad_alloc();
}

const std::string& NameReader::operator[](std::size_t i) {
  assert(i < table_->size());
  if (const std::size_t b = i / NameTable::kBlockNames; b != block_) decode_block(b);
  go_to(i % NameTable::kBlockNames);
  return name_;
}

void NameReader::decode_block(std::size_t b) {
  block_ = kNone;
  names_ = std::min(NameTable::kBlockNames, table_->size() - b * NameTable::kBlockNames);
  const std::span<const std::byte> compressed = table_->block(b);
  const std::uint64_t bytes = ZSTD_getFrameContentSize(compressed.data(), compressed.size());
  const std::size_t arrays = names_ * kArrays * sizeof(std::uint16_t);
  if (bytes > kMostBlockBytes || bytes < arrays) fail_table();
  raw_.resize(bytes);
  if (ZSTD_decompressDCtx(context_.get(), raw_.data(), raw_.size(), compressed.data(), compressed.size()) !=
      bytes) {
    fail_table();
  }
  block_ = b;
  next_ = 0;
  text_at_ = arrays;
  name_.clear();
}

// Array 0: prefixes; 1: suffixes; 2: bytes between.
std::size_t NameReader::number(std::size_t array, std::size_t i) const noexcept {
  return load<std::uint16_t>(raw_, (array * names_ + i) * sizeof(std::uint16_t));
}

// Has name_ be name i of the block.
void NameReader::go_to(std::size_t i) {
  if (next_ == i + 1) return;
  const std::size_t alone = i - i % kAloneEvery;
  if (next_ > i || next_ < alone) {
    name_.clear();
    next_ = alone;
    text_at_ = names_ * kArrays * sizeof(std::uint16_t);
    for (std::size_t k = 0; k < alone; ++k) text_at_ += number(2, k);
  }
  while (next_ <= i) step();
}

void NameReader::step() {
  const std::size_t prefix = number(0, next_);
  const std::size_t suffix = number(1, next_);
  const std::size_t middle = number(2, next_);
  if (prefix + suffix > name_.size() || text_at_ > raw_.size() || middle > raw_.size() - text_at_) {
    block_ = kNone;
    fail_table();
  }
  name_.replace(prefix, name_.size() - prefix - suffix, reinterpret_cast<const char*>(raw_.data() + text_at_),
                middle);
  text_at_ += middle;
  ++next_;
}

}  // namespace rota::internal
