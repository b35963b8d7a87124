#include "formats/numpy.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "core/failure.hpp"

namespace rota::internal {
namespace {

constexpr std::string_view kNumpyMagic = "\x93NUMPY";
constexpr std::size_t kMostShown = 200;
constexpr std::size_t kMostElementBytes = 1U << 31U;
constexpr std::size_t kMostHeaderBytes = 1 << 16;  // NumPy itself refuses more than 10,000

bool is_shape(const nlohmann::json& shape) {
  return shape.is_array() && std::ranges::all_of(shape, [](const nlohmann::json& extent) {
           constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
           return extent.is_number_unsigned() && extent.get<std::uint64_t>() <= kMost;
         });
}

DType float_type(std::size_t bytes) {
  return bytes == 2 ? DType::float16 : bytes == 4 ? DType::float32 : DType::float64;
}

// Of what NumPy calls '<f4' (numpy.lib.format); nothing for objects, and floats of more than 8 bytes.
std::optional<StoredType> scalar_of(std::string_view text) {
  std::size_t count = 0;
  if (text.size() < 3 || std::string_view("<>=|").find(text[0]) == std::string_view::npos) return {};
  const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), count);
  if (error != std::errc() || count == 0 || count > kMostElementBytes) return {};
  const std::string_view unit(end, text.data() + text.size());  // of time, '<M8[ns]'
  if (!unit.empty() && text[1] != 'M' && text[1] != 'm') return {};
  const bool is_swapped = text[0] == '>' && count > 1;
  const bool is_power = std::has_single_bit(count) && count <= sizeof(std::int64_t);
  switch (text[1]) {
    case 'b':
      return count == 1 ? std::optional(StoredType::of(DType::boolean)) : std::nullopt;
    case 'i':
    case 'u':
      if (!is_power) return {};
      return StoredType::of(integer_type(count, text[1] == 'i'), is_swapped);
    case 'f':
      if (!is_power || count == 1) return {};
      return StoredType::of(float_type(count), is_swapped);
    case 'c':
      if (count != 8 && count != 16) return {};
      return StoredType::of(float_type(count / 2), is_swapped, {2});
    case 'M':
    case 'm':
      return count == 8 ? std::optional(StoredType::of(DType::int64, is_swapped)) : std::nullopt;
    case 'S':
      return StoredType{.bytes = count, .parts = {{.kind = StoredKind::text_of_zeros, .bytes = count}}};
    case 'U':
      count *= sizeof(char32_t);
      return StoredType{.bytes = count,
                        .parts = {{.kind = StoredKind::utf32, .is_swapped = text[0] == '>', .bytes = count}}};
    case 'V':
      return StoredType::of(DType::uint8, false, {static_cast<std::int64_t>(count)});
    default:
      return {};
  }
}

// Of '<f4', or of a list of members: (name, type), (name, type, shape), or ((title, name), ...). Those
// without a name fill gaps.
std::optional<StoredType> type_of(const nlohmann::json& descr) {
  if (descr.is_string()) return scalar_of(descr.get_ref<const std::string&>());
  StoredType whole;
  for (const auto& member : descr) {
    if (!member.is_array() || member.size() < 2 || member.size() > 3) return {};
    const auto& name = member[0].is_array() && member[0].size() == 2 ? member[0][1] : member[0];
    const auto type = type_of(member[1]);
    const bool has_shape = member.size() == 3;
    if (!name.is_string() || !type || (has_shape && !is_shape(member[2]))) return {};
    const auto shape = has_shape ? member[2].get<std::vector<std::int64_t>>() : std::vector<std::int64_t>();
    StoredType placed;
    if (!type->add_to(placed, name.get<std::string>(), whole.bytes, shape)) return {};
    const std::size_t bytes = shape.empty() ? type->bytes : placed.parts[0].bytes;
    if (bytes == 0 || bytes > kMostElementBytes - whole.bytes) return {};
    whole.bytes += bytes;
    if (!name.get_ref<const std::string&>().empty())
      std::ranges::move(placed.parts, std::back_inserter(whole.parts));
  }
  return whole.parts.empty() ? std::nullopt : std::optional(std::move(whole));
}

// What stands in quotes, `rest` behind the first of them, as JSON has it. Names are of Latin-1, unless all is
// UTF-8. Takes it from `rest`.
std::string take_quoted(std::string_view& rest, char quote, bool is_utf8) {
  std::string text = "\"";
  while (!rest.empty() && rest[0] != quote) {
    const auto c = static_cast<unsigned char>(rest[0]);
    const bool is_escape = c == '\\' && rest.size() > 1;
    if (is_escape && rest[1] == '\'') {
      text += '\'';
    } else if (is_escape) {
      text += rest[1] == 'x' ? "\\u00" : rest.substr(0, 2);
    } else if (c >= 0x80 && !is_utf8) {
      text += {static_cast<char>(0xc0U | c >> 6U), static_cast<char>(0x80U | (c & 0x3fU))};
    } else {
      text += c == '"' ? "\\\"" : rest.substr(0, 1);
    }
    rest.remove_prefix(is_escape ? 2 : 1);
  }
  rest.remove_prefix(std::min<std::size_t>(rest.size(), 1));
  return text + '"';
}

// The dictionary of Python that NumPy writes, {'descr': '<f4', 'fortran_order': False, 'shape': (3,), }, as
// JSON; other text becomes something else.
std::string as_json(std::string_view python, bool is_utf8) {
  constexpr std::string_view kPython = "()TFL";  // 3L: as Python 2 wrote it
  constexpr std::string_view kJson = "[]tf ";
  std::string text;
  while (!python.empty()) {
    const char c = python[0];
    python.remove_prefix(1);
    if (c == '\'' || c == '"') {
      text += take_quoted(python, c, is_utf8);
      continue;
    }
    if (c == ')' || c == ']' || c == '}') {
      const std::size_t last = text.find_last_not_of(" \t\n");
      if (last != std::string::npos && text[last] == ',') text[last] = ' ';
    }
    const std::size_t found = kPython.find(c);
    text += found == std::string_view::npos ? c : kJson[found];
  }
  return text;
}

// Nothing where `text` is no such dictionary. Whatever "descr" is, which is a list for a structure.
std::optional<nlohmann::json> parse(std::string_view text, bool is_utf8) {
  using nlohmann::json;
  json parsed = json::parse(as_json(text, is_utf8), nullptr, false);
  if (!parsed.is_object() || parsed.size() != 3 || !parsed.contains("descr")) return std::nullopt;
  const auto shape = parsed.find("shape");
  const auto order = parsed.find("fortran_order");
  const bool is_whole =
      order != parsed.end() && order->is_boolean() && shape != parsed.end() && is_shape(*shape);
  if (!is_whole) return std::nullopt;
  return parsed;
}

Error unsupported(const DatasetFile& file, std::uint64_t at, std::string_view what) {
  return failure(ErrorCode::unsupported,
                 "read {}: byte {}: the array holds {}; rota reads integers, floats, text and structures of "
                 "these: convert it",
                 file.path(), at, what);
}

bool fits(const NpyHeader& header, std::uint64_t most) {
  auto bytes = static_cast<std::int64_t>(header.type.bytes);
  bool is_empty = false;
  for (const std::int64_t extent : header.shape) {
    is_empty = is_empty || extent == 0;
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(extent, 1), &bytes)) return false;
  }
  return is_empty || static_cast<std::uint64_t>(bytes) <= most;
}

void check_length(const DatasetFile& file, std::uint64_t at, std::uint64_t length, std::uint64_t most) {
  if (length > most) throw file.damage(at, "an NPY header of {} bytes is more than there is", length);
  if (length <= kMostHeaderBytes) return;
  throw failure(
      ErrorCode::unsupported,
      "read {}: byte {}: an NPY header of {} bytes; rota reads those of up to {}: name fewer fields",
      file.path(), at, length, kMostHeaderBytes);
}

}  // namespace

std::uint64_t NpyHeader::data_bytes() const noexcept {
  std::uint64_t bytes = type.bytes;
  for (const std::int64_t extent : shape) bytes *= static_cast<std::uint64_t>(extent);
  return bytes;
}

NpyHeader read_npy_header(const DatasetFile& file, std::uint64_t at, std::uint64_t bytes,
                          const NextBytes& next) {
  const auto damaged = [&](std::string_view what) { return file.damage(at, what); };
  constexpr std::size_t kShortHead = 10;  // magic, version, and two bytes of the header's length
  std::array<char, kShortHead + 2> head{};
  if (bytes < head.size()) throw damaged("it is no NPY array, or was cut short");
  next(std::as_writable_bytes(std::span(head)).first(kShortHead));
  if (!std::string_view(head.data(), head.size()).starts_with(kNumpyMagic))
    throw damaged("it is no NPY array");
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(head[i]));
  };
  if (byte(6) < 1 || byte(6) > 3) throw damaged(fmt::format("version {} of NPY is not known", byte(6)));
  const std::uint64_t begin = byte(6) == 1 ? kShortHead : head.size();
  if (begin > kShortHead) next(std::as_writable_bytes(std::span(head)).subspan(kShortHead));
  const std::uint64_t length = byte(8) | byte(9) << 8U | byte(10) << 16U | byte(11) << 24U;
  check_length(file, at, length, bytes - begin);
  std::string text(length, '\0');
  next(std::as_writable_bytes(std::span(text)));
  const auto dictionary = parse(text, byte(6) == 3);
  if (!dictionary) throw damaged("its NPY header is damaged");
  const std::string descr = dictionary->at("descr").dump();
  if (descr.find("|O\"") != std::string::npos) {
    throw unsupported(file, at, "Python objects, which only a pickle can hold, and pickles can run anything");
  }
  auto type = type_of(dictionary->at("descr"));
  if (!type) throw unsupported(file, at, fmt::format("elements of type {}", descr.substr(0, kMostShown)));
  NpyHeader header{.type = std::move(*type),
                   .is_fortran = dictionary->at("fortran_order").get<bool>(),
                   .shape = dictionary->at("shape").get<std::vector<std::int64_t>>(),
                   .data_at = begin + length};
  if (!fits(header, bytes - header.data_at)) {
    throw damaged(fmt::format("an array [{}] of {} is more than the {} bytes that follow: it was cut short",
                              fmt::join(header.shape, ", "), descr, bytes - header.data_at));
  }
  return header;
}

std::string describe(const NpyHeader& header) {
  if (header.type.is_short_text()) {
    const bool is_wide = header.type.parts[0].kind == StoredKind::utf32;
    return fmt::format("text of {} {}{} [{}]", header.type.bytes / (is_wide ? sizeof(std::uint32_t) : 1),
                       is_wide ? "characters" : "bytes",
                       header.type.parts[0].is_swapped ? " in the other byte order" : "",
                       fmt::join(header.shape, ", "));
  }
  const Field field = header.type.as_stored("", header.shape);
  return fmt::format("{} [{}]", to_string(field.dtype), fmt::join(field.shape, ", "));
}

bool are_alike(const NpyHeader& a, const NpyHeader& b) {
  return a.type.joins_with(b.type) && a.shape.size() == b.shape.size() &&
         (a.shape.empty() || std::equal(a.shape.begin() + 1, a.shape.end(), b.shape.begin() + 1));
}

std::vector<std::int64_t> row_shape(const NpyHeader& header) {
  return {header.shape.begin() + (header.shape.empty() ? 0 : 1), header.shape.end()};
}

void to_c_order(const NpyHeader& header, std::span<const std::byte> from, std::span<std::byte> to) {
  const std::size_t element = header.type.bytes;
  std::vector<std::size_t> strides;  // in `from`, of each index
  std::size_t stride = element;
  for (const std::int64_t extent : header.shape) {
    strides.push_back(stride);
    stride *= static_cast<std::size_t>(extent);
  }
  std::vector<std::int64_t> at(header.shape.size(), 0);
  std::size_t source = 0;
  for (std::size_t done = 0; done < to.size(); done += element) {
    std::memcpy(to.data() + done, from.data() + source, element);
    for (std::size_t d = at.size(); d-- > 0;) {
      source += strides[d];
      if (++at[d] < header.shape[d]) break;
      source -= strides[d] * static_cast<std::size_t>(header.shape[d]);
      at[d] = 0;
    }
  }
}

}  // namespace rota::internal
