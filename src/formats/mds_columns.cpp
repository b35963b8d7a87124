#include "formats/mds_columns.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "rota/error.hpp"

namespace rota::internal {
namespace {

// Their bytes are handed out as they are: text, and images that the user decodes.
constexpr std::string_view kPlain[] = {"bytes", "str",     "json",      "jpeg",       "png",
                                       "pil",   "str_int", "str_float", "str_decimal"};
constexpr std::string_view kNumbers[] = {"int8",   "int16",  "int32",   "int64",   "uint8",  "uint16",
                                         "uint32", "uint64", "float16", "float32", "float64"};

template <typename Names>
bool is_among(const Names& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// Numbers with commas between; nothing where it is something else, or too large.
std::optional<std::vector<std::int64_t>> parse_shape(std::string_view text) {
  constexpr std::uint64_t kMostElements = std::uint64_t{1} << 32;
  const auto shape = nlohmann::json::parse(fmt::format("[{}]", text), nullptr, false);
  std::uint64_t elements = 1;
  for (const auto& extent : shape) {
    const std::uint64_t count = extent.is_number_unsigned() ? extent.get<std::uint64_t>() : 0;
    if (count == 0 || count > kMostElements / elements) return std::nullopt;
    elements *= count;
  }
  if (!shape.is_array() || shape.empty()) return std::nullopt;
  return shape.get<std::vector<std::int64_t>>();
}

// ndarray:TYPE:SHAPE is fixed, ndarray:TYPE has a shape of its own in each sample; ndarray alone a type, too.
std::optional<Field> array_field(const std::string& name, std::string_view arguments, bool& has_shape) {
  const std::size_t colon = arguments.find(':');
  const std::string_view type = arguments.substr(0, colon);
  if (!is_among(kNumbers, type)) return std::nullopt;
  Field field{
      .name = name, .dtype = parse_dtype(type), .shape = {}, .ragged = colon == std::string_view::npos};
  has_shape = field.ragged;
  if (field.ragged) return field;
  auto shape = parse_shape(arguments.substr(colon + 1));
  if (!shape) return std::nullopt;
  field.shape = std::move(*shape);
  return field;
}

}  // namespace

MdsColumn make_mds_column(std::string name, std::string encoding, std::optional<std::uint32_t> size,
                          const std::string& where) {
  MdsColumn column{.name = std::move(name), .encoding = std::move(encoding), .size = size, .field = {}};
  const std::string_view text = column.encoding;
  const std::size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  if (kind == "ndarray" && colon != std::string_view::npos) {
    column.field = array_field(column.name, text.substr(colon + 1), column.has_shape);
  } else if (is_among(kPlain, kind)) {
    column.field = {.name = column.name, .dtype = DType::uint8, .shape = {}, .ragged = true};
  } else if (kind == "int" || is_among(kNumbers, kind)) {
    column.field = {
        .name = column.name, .dtype = kind == "int" ? DType::int64 : parse_dtype(kind), .shape = {}};
  }
  if (!column.field) return column;
  const std::optional<std::uint64_t> expected =
      column.field->ragged ? std::nullopt : std::optional<std::uint64_t>(column.field->row_bytes());
  if (expected.has_value() == size.has_value() && (!size || *expected == *size)) return column;
  throw Error(ErrorCode::corrupt,
              fmt::format("{}: column \"{}\" of encoding {} is said to take {} bytes", where, column.name,
                          column.encoding, size ? std::to_string(*size) : "any"));
}

std::string mds_encoding(const Field& field) {
  const std::string_view type = to_string(field.dtype);
  if (field.ragged && field.shape.empty() && field.dtype == DType::uint8) return "bytes";
  if (!is_among(kNumbers, type)) return {};
  if (field.ragged) return field.shape.empty() ? fmt::format("ndarray:{}", type) : std::string();
  if (field.shape.empty()) return std::string(type);
  const std::string shape = fmt::format("{}", fmt::join(field.shape, ","));
  return parse_shape(shape) ? fmt::format("ndarray:{}:{}", type, shape) : std::string();
}

void append_mds_shape(std::string& to, std::size_t elements) {
  unsigned width = 0;  // its logarithm
  while (width < 3 && elements >> (8U << width) != 0) ++width;
  to += static_cast<char>(1U << 2U | width);
  for (unsigned byte = 0; byte < 1U << width; ++byte) to += static_cast<char>(elements >> (8 * byte));
}

ByteRange skip_mds_shape(const File& file, const MdsColumn& column, ByteRange range, Scan& scan) {
  // A byte: six bits of dimensions, two of the width of an extent; the extents; the values.
  const auto head = scan.at(range.offset, 1);
  if (range.bytes < 1 || head.empty()) throw file.damage(range.offset, "an array without a shape");
  const auto byte = std::to_integer<std::uint32_t>(head[0]);
  const std::uint64_t dimensions = byte >> 2U;
  const std::uint64_t width = 1U << (byte & 3U);
  if (dimensions != 1) {
    throw Error(
        ErrorCode::unsupported,
        fmt::format("read {}: byte {}: an array of column \"{}\" has {} dimensions; rota reads arrays of "
                    "any shape only where they have one: give the shape in the encoding, as in "
                    "{}:3,224,224",
                    file.path(), range.offset, column.name, dimensions, column.encoding));
  }
  const std::uint64_t skipped = 1 + width;
  const auto extent_bytes = scan.at(range.offset + 1, width);
  std::uint64_t extent = 0;
  for (std::size_t i = extent_bytes.size(); i-- > 0;)
    extent = extent << 8U | std::to_integer<std::uint64_t>(extent_bytes[i]);
  const ByteRange values{.offset = range.offset + skipped,
                         .bytes = range.bytes - std::min(range.bytes, skipped)};
  const std::size_t element = column.field->row_bytes();
  if (extent_bytes.size() < width || range.bytes < skipped || values.bytes % element != 0 ||
      values.bytes / element != extent) {
    throw file.damage(range.offset,
                      fmt::format("an array of column \"{}\" says that it has {} elements, in {} bytes",
                                  column.name, extent, range.bytes));
  }
  return values;
}

}  // namespace rota::internal
