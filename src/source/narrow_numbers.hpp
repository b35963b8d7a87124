#pragma once

// Many numbers in as few bytes as the largest of them needs.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace rota::internal {

/// A view of numbers from 0 on, of 4 bytes each, or of 8 where one is 2^31 or more.
class NarrowNumbers {
 public:
  NarrowNumbers() = default;
  /// Of what `put` has written. `most`: no number is larger.
  NarrowNumbers(std::span<const std::byte> bytes, std::int64_t most) noexcept
      : bytes_(bytes.data()),
        size_(static_cast<std::int64_t>(bytes.size() / width(most))),
        is_wide_(width(most) == 8) {}

  /// Bytes of a number.
  [[nodiscard]] static constexpr std::size_t width(std::int64_t most) noexcept {
    return most >> 31 == 0 ? 4 : 8;
  }
  /// Writes number i to memory of `width` bytes for each.
  static void put(std::byte* bytes, std::size_t width, std::int64_t i, std::int64_t number) noexcept {
    // Its low bytes are first; a copy of a known size is one instruction.
    if (width == 4) {
      std::memcpy(bytes + i * 4, &number, 4);
    } else {
      std::memcpy(bytes + i * 8, &number, 8);
    }
  }

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] std::int64_t operator[](std::int64_t i) const noexcept {
    return is_wide_ ? get<std::int64_t>(i) : get<std::int32_t>(i);
  }

 private:
  template <typename T>
  [[nodiscard]] T get(std::int64_t i) const noexcept {
    T number;
    std::memcpy(&number, bytes_ + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
    return number;
  }

  const std::byte* bytes_ = nullptr;
  std::int64_t size_ = 0;
  bool is_wide_ = false;
};

}  // namespace rota::internal
