#include "cli/preview.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "cli/shown_text.hpp"
#include "core/bytes.hpp"

namespace rota::cli {
namespace {

constexpr std::size_t kMostNumbers = 8;
constexpr std::size_t kMostHex = 16;
constexpr std::size_t kMostText = 60;     // bytes
constexpr std::size_t kMostLooked = 256;  // bytes that decide whether it is text

std::string number_in(DType dtype, std::span<const std::byte> bytes) {
  if (dtype == DType::boolean) return internal::load<std::uint8_t>(bytes) != 0 ? "true" : "false";
  return internal::with_type(dtype, [&](auto value) -> std::string {
    using Value = decltype(value);
    if constexpr (std::is_integral_v<Value>) return fmt::to_string(internal::load<Value>(bytes));
    if constexpr (std::is_same_v<Value, double>) return fmt::format("{:.6g}", internal::load<double>(bytes));
    float number = 0;
    to_floats(dtype, bytes, {&number, 1});
    return fmt::format("{:.6g}", number);
  });
}

std::string numbers(DType dtype, std::span<const std::byte> bytes) {
  const std::size_t each = size_of(dtype);
  const std::size_t count = bytes.size() / each;
  std::string text;
  for (std::size_t i = 0; i < std::min(count, kMostNumbers); ++i) {
    text += (i == 0 ? "" : " ") + number_in(dtype, bytes.subspan(i * each, each));
  }
  return count > kMostNumbers ? text + " ..." : text;
}

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (std::size_t i = 0; i < std::min(bytes.size(), kMostHex); ++i) {
    text += fmt::format("{}{:02x}", i == 0 ? "" : " ", static_cast<unsigned>(bytes[i]));
  }
  return bytes.size() > kMostHex ? text + " ..." : text;
}

// How many of the first `most` bytes of `text` are whole characters, as far as it is UTF-8.
std::size_t whole_characters(std::string_view text, std::size_t most) {
  std::size_t end = 0;
  while (end < text.size()) {
    const std::size_t bytes = character_bytes(text.substr(end));
    if (bytes == 0 || end + bytes > most) break;
    end += bytes;
  }
  return end;
}

bool looks_like_text(std::string_view text) {
  const std::size_t looked = std::min(text.size(), kMostLooked);
  const std::size_t whole = whole_characters(text, looked);
  if (whole < looked && (looked == text.size() || looked - whole > 3)) return false;
  return std::ranges::none_of(text.substr(0, whole), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\n' && c != '\t' && c != '\r') || byte == 0x7f;
  });
}

}  // namespace

std::string preview(const Field& field, std::span<const std::byte> bytes) {
  const bool is_bytes = field.dtype == DType::uint8 && field.ragged && field.shape.empty();
  if (!is_bytes) return numbers(field.dtype, bytes);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!looks_like_text(text)) return hex(bytes);
  const std::size_t end = whole_characters(text, kMostText);
  return fmt::format("\"{}\"{}", shown(text.substr(0, end)), end < text.size() ? " ..." : "");
}

}  // namespace rota::cli
