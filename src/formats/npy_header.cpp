#include "formats/npy_header.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
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

// A literal of a Python dictionary, as NumPy writes it: {'descr': '<f4', 'fortran_order': False, 'shape':
// (3,), }.
class Literal {
 public:
  explicit Literal(std::string_view text) : rest_(text) {}

  // Takes `token`, after blanks, if it comes next.
  bool take(std::string_view token) {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\n"), rest_.size()));
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  // A string without escapes.
  std::optional<std::string_view> string() {
    for (const std::string_view quote : {"'", "\""}) {
      if (!take(quote)) continue;
      const std::size_t end = rest_.find(quote);
      if (end == std::string_view::npos) return std::nullopt;
      const std::string_view text = rest_.substr(0, end);
      rest_.remove_prefix(end + 1);
      return text;
    }
    return std::nullopt;
  }
  std::optional<bool> boolean() {
    if (take("True")) return true;
    if (take("False")) return false;
    return std::nullopt;
  }
  std::optional<std::vector<std::int64_t>> tuple() {
    if (!take("(")) return std::nullopt;
    std::vector<std::int64_t> values;
    while (!take(")")) {
      take("");
      std::int64_t value = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
      if (error != std::errc() || value < 0) return std::nullopt;
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      take("L");  // as Python 2 wrote it
      values.push_back(value);
      if (!take(",") && !rest_.starts_with(')')) return std::nullopt;
    }
    return values;
  }

 private:
  std::string_view rest_;
};

struct Dictionary {
  std::optional<std::string_view> type;
  std::optional<bool> is_fortran;
  std::optional<std::vector<std::int64_t>> shape;
  bool has_other_type = false;  // a list: a structure
};

std::optional<Dictionary> parse(std::string_view text) {
  Literal literal(text);
  Dictionary dictionary;
  if (!literal.take("{")) return std::nullopt;
  while (!literal.take("}")) {
    const auto key = literal.string();
    if (!key || !literal.take(":")) return std::nullopt;
    if (*key == "descr") {
      dictionary.type = literal.string();
      if (!dictionary.type)
        return Dictionary{.type = {}, .is_fortran = {}, .shape = {}, .has_other_type = true};
    } else if (*key == "fortran_order") {
      dictionary.is_fortran = literal.boolean();
    } else if (*key == "shape") {
      dictionary.shape = literal.tuple();
    } else {
      return std::nullopt;
    }
    literal.take(",");
  }
  if (!dictionary.type || !dictionary.is_fortran || !dictionary.shape) return std::nullopt;
  return dictionary;
}

Error unsupported(const RecordFile& file, std::uint64_t at, std::string_view what) {
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

NpyHeader read_npy_header(const RecordFile& file, std::uint64_t at, std::uint64_t bytes,
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
  if (length > kMostHeaderBytes || length > bytes - begin) {
    throw damaged(fmt::format("an NPY header of {} bytes is more than there is", length));
  }
  std::string text(length, '\0');
  next(std::as_writable_bytes(std::span(text)));
  auto dictionary = parse(text);
  if (!dictionary) throw damaged("its NPY header is damaged");
  if (dictionary->has_other_type) throw unsupported(file, at, "structures");
  if (dictionary->type->find('O') != std::string_view::npos) {
    throw unsupported(file, at, "Python objects, which only a pickle can hold, and pickles can run anything");
  }
  const auto dtype = dtype_of(*dictionary->type);
  if (!dtype) throw unsupported(file, at, fmt::format("elements of type '{}'", *dictionary->type));
  NpyHeader header{.dtype = *dtype,
                   .is_fortran = *dictionary->is_fortran,
                   .shape = std::move(*dictionary->shape),
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
