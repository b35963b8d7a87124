#pragma once

// Integers in the fixed byte order of the file.

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

namespace rota::checkpoint {

static_assert(std::endian::native == std::endian::little,
              "tensors are written as they lie in memory, and the file is little-endian");

/// Writes `value` at byte `at` of `bytes`.
template <typename T>
void put(std::span<std::byte> bytes, std::size_t at, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  assert(at + sizeof(T) <= bytes.size());
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

/// The T at byte `at` of `bytes`.
template <typename T>
[[nodiscard]] T get(std::span<const std::byte> bytes, std::size_t at) {
  static_assert(std::is_trivially_copyable_v<T>);
  assert(at + sizeof(T) <= bytes.size());
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

}  // namespace rota::checkpoint
