#pragma once

// Values one after the other, in the byte order of the file.

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "little_endian.hpp"
#include "rota/error.hpp"

namespace rota::checkpoint {

class ByteWriter {
 public:
  template <typename T>
  void add(T value) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    put(bytes_, at, value);
  }
  void add_bytes(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  /// Its length as u32, then its bytes.
  void add_string(std::string_view text) {
    add(static_cast<std::uint32_t>(text.size()));
    add_bytes(std::as_bytes(std::span(text)));
  }
  [[nodiscard]] std::vector<std::byte> take() && { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

/// Reads what ByteWriter wrote, or what claims to be that: throws Error{corrupt} headed by `what` where it
/// ends early.
class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, std::string_view what) : bytes_(bytes), what_(what) {}

  template <typename T>
  [[nodiscard]] T next() {
    return get<T>(next_bytes(sizeof(T)), 0);
  }
  [[nodiscard]] std::span<const std::byte> next_bytes(std::size_t count) {
    if (count > bytes_.size()) fail("it ends early");
    const auto found = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return found;
  }
  [[nodiscard]] std::string next_string() {
    const auto bytes = next_bytes(next<std::uint32_t>());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  [[nodiscard]] std::span<const std::byte> rest() const noexcept { return bytes_; }
  [[nodiscard]] bool at_end() const noexcept { return bytes_.empty(); }

  [[noreturn]] void fail(std::string_view why) const {
    throw Error(ErrorCode::corrupt, fmt::format("{}: {}", what_, why));
  }

 private:
  std::span<const std::byte> bytes_;
  std::string what_;
};

}  // namespace rota::checkpoint
