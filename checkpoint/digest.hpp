#pragma once

// The checksums of the file: XXH3, as FORMAT.md says where.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace rota::checkpoint {

/// XXH3-128, seed 0.
struct Digest {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const Digest&, const Digest&) = default;
};

[[nodiscard]] Digest digest(std::span<const std::byte> bytes) noexcept;

/// The same of what comes in pieces.
class DigestStream {
 public:
  DigestStream();
  ~DigestStream();
  DigestStream(const DigestStream&) = delete;
  DigestStream& operator=(const DigestStream&) = delete;

  void add(std::span<const std::byte> bytes) noexcept;
  [[nodiscard]] Digest digest() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// XXH3-64, seed 0.
[[nodiscard]] std::uint64_t short_digest(std::span<const std::byte> bytes) noexcept;

/// Sum modulo 2^64 of XXH3-64 of each row, seeded by its index; `rows` are rows `first`, `first` + 1, ...
/// Sums over any split of a tensor add up to the same. 0 where `row_bytes` is 0.
[[nodiscard]] std::uint64_t row_digest(std::span<const std::byte> rows, std::int64_t first,
                                       std::int64_t row_bytes) noexcept;

/// The digest of one row that comes in pieces, which `row_digest` adds up. *One thread.*
class RowStream {
 public:
  RowStream();
  ~RowStream();
  RowStream(const RowStream&) = delete;
  RowStream& operator=(const RowStream&) = delete;

  void begin(std::uint64_t row) noexcept;
  void add(std::span<const std::byte> bytes) noexcept;
  [[nodiscard]] std::uint64_t digest() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rota::checkpoint
