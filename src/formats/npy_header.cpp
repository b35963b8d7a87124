#include "formats/npy_header.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "rota/error.hpp"

namespace rota::internal {
namespace {

constexpr std::string_view kNumpyMagic = "\x93NUMPY";
constexpr std::size_t kMostHeaderBytes = 1 << 16;  // NumPy itself refuses more than 10,000

std::optional<DType> dtype_of(std::string_view text) {
  static constexpr std::pair<std::string_view, DType> kTypes[] = {
      {"b1", DType::boolean}, {"i1", DType::int8},    {"i2", DType::int16},   {"i4", DType::int32},
      {"i8", DType::int64},   {"u1", DType::uint8},   {"u2", DType::uint16},  {"u4", DType::uint32},
      {"u8", DType::uint64},  {"f2", DType::float16}, {"f4", DType::float32}, {"f8", DType::float64}};
  if (text.empty()) return std::nullopt;
  const bool is_native = text[0] == '<' || text[0] == '=' || (text[0] == '|' && text.ends_with('1'));
  const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                   [&](const auto& type) { return type.first == text.substr(1); });
  if (!is_native || found == std::end(kTypes)) return std::nullopt;
  return found->second;
}

// The dictionary of Python that NumPy writes, {'descr': '<f4', 'fortran_order': False, 'shape': (3,), }, as
// JSON; other text becomes something else.
std::string as_json(std::string_view python) {
  constexpr std::string_view kPython = "'()TFL";  // 3L: as Python 2 wrote it
  constexpr std::string_view kJson = "\"[]tf ";
  std::string text;
  for (const char c : python) {
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
std::optional<nlohmann::json> parse(std::string_view text) {
  using nlohmann::json;
  json parsed = json::parse(as_json(text), nullptr, false);
  if (!parsed.is_object() || parsed.size() != 3 || !parsed.contains("descr")) return std::nullopt;
  const auto shape = parsed.find("shape");
  const auto order = parsed.find("fortran_order");
  const auto is_extent = [](const json& extent) {
    constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
    return extent.is_number_unsigned() && extent.get<std::uint64_t>() <= kMost;
  };
  const bool is_whole = order != parsed.end() && order->is_boolean() && shape != parsed.end() &&
                        shape->is_array() && std::all_of(shape->begin(), shape->end(), is_extent);
  if (!is_whole) return std::nullopt;
  return parsed;
}

Error unsupported(const File& file, std::uint64_t at, std::string_view what) {
  return {
      ErrorCode::unsupported,
      fmt::format("read {}: byte {}: the array holds {}; rota reads native integers, floats and booleans: "
                  "convert it",
                  file.path(), at, what)};
}

bool fits(const NpyHeader& header, std::uint64_t most) {
  auto bytes = static_cast<std::int64_t>(size_of(header.dtype));
  bool is_empty = false;
  for (const std::int64_t extent : header.shape) {
    is_empty = is_empty || extent == 0;
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(extent, 1), &bytes)) return false;
  }
  return is_empty || static_cast<std::uint64_t>(bytes) <= most;
}

}  // namespace

std::uint64_t NpyHeader::data_bytes() const noexcept {
  std::uint64_t bytes = size_of(dtype);
  for (const std::int64_t extent : shape) bytes *= static_cast<std::uint64_t>(extent);
  return bytes;
}

NpyHeader read_npy_header(const File& file, std::uint64_t at, std::uint64_t bytes, const NextBytes& next) {
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
  if (length > kMostHeaderBytes || length > bytes - begin) {
    throw damaged(fmt::format("an NPY header of {} bytes is more than there is", length));
  }
  std::string text(length, '\0');
  next(std::as_writable_bytes(std::span(text)));
  const auto dictionary = parse(text);
  const bool is_structure =  // also where names of its members make no JSON
      dictionary ? !dictionary->at("descr").is_string() : text.find("'descr': [") != std::string_view::npos;
  if (is_structure) throw unsupported(file, at, "structures");
  if (!dictionary) throw damaged("its NPY header is damaged");
  const auto type = dictionary->at("descr").get<std::string>();
  if (type.find('O') != std::string::npos) {
    throw unsupported(file, at, "Python objects, which only a pickle can hold, and pickles can run anything");
  }
  const auto dtype = dtype_of(type);
  if (!dtype) throw unsupported(file, at, fmt::format("elements of type '{}'", type));
  NpyHeader header{.dtype = *dtype,
                   .is_fortran = dictionary->at("fortran_order").get<bool>(),
                   .shape = dictionary->at("shape").get<std::vector<std::int64_t>>(),
                   .data_at = begin + length};
  if (!fits(header, bytes - header.data_at)) {
    throw damaged(fmt::format("an array [{}] of {} is more than the {} bytes that follow: it was cut short",
                              fmt::join(header.shape, ", "), to_string(*dtype), bytes - header.data_at));
  }
  return header;
}

std::string describe(const NpyHeader& header) {
  return fmt::format("{} [{}]", to_string(header.dtype), fmt::join(header.shape, ", "));
}

bool are_alike(const NpyHeader& a, const NpyHeader& b) {
  return a.dtype == b.dtype && a.shape.size() == b.shape.size() &&
         (a.shape.empty() || std::equal(a.shape.begin() + 1, a.shape.end(), b.shape.begin() + 1));
}

std::vector<std::int64_t> row_shape(const NpyHeader& header) {
  return {header.shape.begin() + (header.shape.empty() ? 0 : 1), header.shape.end()};
}

void to_c_order(const NpyHeader& header, std::span<const std::byte> from, std::span<std::byte> to) {
  const std::size_t element = size_of(header.dtype);
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
