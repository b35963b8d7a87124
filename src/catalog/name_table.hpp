#pragma once

// Many file names in little memory: in blocks, each name as what differs from the one before, compressed.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rota/fingerprint.hpp"

struct ZSTD_DCtx_s;

namespace rota::internal {

/// Names in a fixed order, compressed into one stretch of bytes that can be sent, shared, saved and mapped as
/// it is. Numbered names take well under a byte each. *Immutable.*
class NameTable {
 public:
  static constexpr std::size_t kBlockNames = 1024;

  /// No names.
  NameTable() noexcept;
  /// Takes `bytes`, as bytes() gave them, which `owner` keeps alive. Throws Error{corrupt} where they cannot
  /// be such; names are checked when they are read.
  NameTable(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  /// Name i. For one now and then; a NameReader is faster for many. Any thread.
  [[nodiscard]] std::string operator[](std::size_t i) const;

 private:
  friend class NameReader;
  [[nodiscard]] std::span<const std::byte> block(std::size_t b) const;

  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  std::size_t size_ = 0;
};

/// Makes a table, whole or block by block. *One thread.*
class NameTableBuilder {
 public:
  /// Takes the bytes of a block that is full.
  using BlockSink = std::function<void(std::span<const std::byte>)>;

  /// Gives blocks to `sink`: the table is all of them, and what end() returns. Without one it keeps them, for
  /// finish().
  explicit NameTableBuilder(BlockSink sink = {});
  ~NameTableBuilder();
  NameTableBuilder(const NameTableBuilder&) = delete;
  NameTableBuilder& operator=(const NameTableBuilder&) = delete;

  /// Puts directory + name at the end. Throws Error{unsupported} for one of more than 65,535 bytes.
  void add(std::string_view directory, std::string_view name);
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] NameTable finish();
  /// Ends the last block. What comes after the blocks in a table.
  [[nodiscard]] std::vector<std::byte> end();
  /// Of all names added, in order. After end().
  [[nodiscard]] Fingerprint digest() const;

 private:
  void end_block();

  struct Compressor;
  std::unique_ptr<Compressor> compressor_;
  BlockSink sink_;
  std::size_t size_ = 0;
  std::vector<std::uint64_t> ends_;  // of blocks, counted from the first byte of the first
  std::vector<std::byte> kept_;      // of blocks, where there is no sink
  std::string whole_;                // names of the block that is not full, each with a zero byte behind it
  std::size_t last_at_ = 0;          // in there
  // Of the names of the block that is not full: bytes in common with the name before, and what is between.
  std::vector<std::uint16_t> prefixes_;
  std::vector<std::uint16_t> suffixes_;
  std::vector<std::uint16_t> middles_;
  std::string text_;
};

/// Reads names of a table that outlives it: one at random in microseconds, the next one in a fraction of
/// that. *One thread.*
class NameReader {
 public:
  explicit NameReader(const NameTable& table);

  /// Name i < size(), which ends in a zero byte, until the next call. Throws Error{corrupt}.
  [[nodiscard]] const std::string& operator[](std::size_t i);

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  void decode_block(std::size_t b);
  void go_to(std::size_t i);
  void step();
  [[nodiscard]] std::size_t number(std::size_t array, std::size_t i) const noexcept;

  const NameTable* table_;
  std::unique_ptr<ZSTD_DCtx_s, std::size_t (*)(ZSTD_DCtx_s*)> context_;
  std::vector<std::byte> raw_;  // of the block, decompressed
  std::size_t block_ = kNone;
  std::size_t names_ = 0;  // in the block
  std::size_t next_ = 0;   // in the block; name_ is the one before
  std::size_t text_at_ = 0;
  std::string name_;
};

}  // namespace rota::internal
