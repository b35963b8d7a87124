#pragma once

// The checksums of the file: XXH3, as FORMAT.md says where.

#include <cstddef>
#include <cstdint>
#include <functional>
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

/// The same for row `row` alone, which may be of any length: `read(done, part)` fills `part` with the bytes
/// from `done` on, piece by piece in `buffer`.
[[nodiscard]] std::uint64_t long_row_digest(
    std::uint64_t row, std::uint64_t row_bytes, std::span<std::byte> buffer,
    const std::function<void(std::uint64_t done, std::span<std::byte> part)>& read);

}  // namespace rota::checkpoint
