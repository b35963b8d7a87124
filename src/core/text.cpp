#include "core/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/failure.hpp"

namespace rota::internal {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    lines.push_back(text.substr(0, text.find('\n')));
    text.remove_prefix(std::min(text.size(), lines.back().size() + 1));
  }
  return lines;
}

std::pair<std::string_view, std::string_view> first_difference(std::string_view one, std::string_view other) {
  const auto a = lines_of(one);
  const auto b = lines_of(other);
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const std::string_view mine = i < a.size() ? a[i] : "nothing";
    const std::string_view theirs = i < b.size() ? b[i] : "nothing";
    if (mine != theirs) return {mine, theirs};
  }
  return {};
}

void require_same_lines(std::string_view task, std::string_view mine, std::string_view first) {
  const auto [own, other] = first_difference(mine, first);
  if (own == other) return;
  throw failure(ErrorCode::mismatch, "{}: rank 0 has {}; this rank has {}; give all ranks the same", task,
                other, own);
}

namespace {

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;  // 0: it is none
};

std::uint32_t byte_at(std::string_view text, std::size_t i) { return static_cast<unsigned char>(text[i]); }

// Neither overlong, nor a surrogate, nor past the last there is (RFC 3629).
Character character_at(std::string_view text) noexcept {
  if (text.empty()) return {};
  const std::uint32_t first = byte_at(text, 0);
  if (first < 0x80) return {.code = first, .bytes = 1};
  const std::size_t bytes = first >> 5 == 0x06 ? 2 : first >> 4 == 0x0e ? 3 : first >> 3 == 0x1e ? 4 : 0;
  if (bytes == 0 || text.size() < bytes) return {};
  std::uint32_t code = first & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if (byte_at(text, i) >> 6 != 0x02) return {};
    code = code << 6 | (byte_at(text, i) & 0x3f);
  }
  constexpr std::array<std::uint32_t, 5> kLeast{0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[bytes] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return {};
  return {.code = code, .bytes = bytes};
}

bool is_plain(std::uint32_t code) noexcept {
  if (code < 0x20 || (code >= 0x7f && code < 0xa0)) return false;
  return (code < 0x2028 || code > 0x202e) && (code < 0x2066 || code > 0x2069);
}

std::string escaped(char byte) {
  const std::size_t known = std::string_view("\n\t\r\\").find(byte);
  if (known != std::string_view::npos) return {'\\', "ntr\\"[known]};
  return fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
}

}  // namespace

std::size_t character_bytes(std::string_view text) noexcept { return character_at(text).bytes; }

std::string shown(std::string_view text) {
  std::string line;
  while (!text.empty()) {
    const Character character = character_at(text);
    const std::size_t bytes = character.bytes == 0 ? 1 : character.bytes;
    if (character.bytes > 0 && is_plain(character.code) && text[0] != '\\') {
      line += text.substr(0, bytes);
    } else {
      for (const char byte : text.substr(0, bytes)) line += escaped(byte);
    }
    text.remove_prefix(bytes);
  }
  return line;
}

std::string without_users(std::string_view text) {
  std::string made(text);
  for (std::size_t at = 0; (at = made.find("://", at)) != std::string::npos;) {
    at += 3;
    const std::size_t end = made.find_first_of("/?# \t'\"", at);
    const std::size_t user_end = std::string_view(made).substr(0, end).rfind('@');
    if (user_end != std::string::npos && user_end >= at) made.replace(at, user_end - at, "***");
  }
  return made;
}

}  // namespace rota::internal
