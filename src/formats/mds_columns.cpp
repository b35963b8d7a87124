#include "formats/mds_columns.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/bytes.hpp"
#include "core/failure.hpp"

namespace rota::internal {
namespace {

// Their bytes are handed out as they are: text, and images that the user decodes.
constexpr std::string_view kPlain[] = {"bytes", "str", "json",    "jpeg",      "png",
                                       "pil",   "pkl", "str_int", "str_float", "str_decimal"};
constexpr std::string_view kLists[] = {"jpeg_array", "jpegarray", "list[jpeg]", "list[png]", "list[pil]"};
constexpr std::string_view kNumbers[] = {"int8",   "int16",  "int32",   "int64",   "uint8",  "uint16",
                                         "uint32", "uint64", "float16", "float32", "float64"};

// An array has up to 63 extents. Of lists it is the two numbers before the sizes that count.
constexpr std::size_t kMostHeadBytes = 1 + 63 * sizeof(std::uint64_t);

bool is_among(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
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

// ndarray:TYPE:SHAPE is fixed, ndarray:TYPE has a shape of its own in each sample; ndarray alone a type, too,
// and is handed out as it is.
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
  } else if (is_among(kPlain, kind) || is_among(kLists, kind) || kind == "ndarray") {
    column.is_list = is_among(kLists, kind);
    column.field = {.name = column.name, .dtype = DType::uint8, .shape = {}, .ragged = true};
  } else if (kind == "int" || is_among(kNumbers, kind)) {
    column.field = {
        .name = column.name, .dtype = kind == "int" ? DType::int64 : parse_dtype(kind), .shape = {}};
  }
  if (!column.field) return column;
  const std::optional<std::uint64_t> expected =
      column.field->ragged ? std::nullopt : std::optional<std::uint64_t>(column.field->row_bytes());
  if (expected.has_value() == size.has_value() && (!size || *expected == *size)) return column;
  throw failure(ErrorCode::corrupt, "{}: column \"{}\" of encoding {} is said to take {} bytes", where,
                column.name, column.encoding, size ? std::to_string(*size) : "any");
}

std::vector<ChosenField> choose_fields(const std::vector<MdsColumn>& columns,
                                       const std::vector<std::string>& wanted, const std::string& path) {
  constexpr std::string_view kSizes = ".sizes";
  std::vector<ChosenField> chosen;
  const auto add_head = [&](std::size_t i, std::string name, DType dtype) {
    chosen.push_back({i, true, {.name = std::move(name), .dtype = dtype, .shape = {}, .ragged = true}});
  };
  const auto add = [&](std::size_t i) {
    if (!columns[i].field) {
      throw failure(ErrorCode::unsupported,
                    "open {}: column \"{}\" is {}; name the columns to read with the option columns", path,
                    columns[i].name, columns[i].encoding);
    }
    chosen.push_back({i, false, *columns[i].field});
    if (columns[i].is_list) add_head(i, columns[i].name + std::string(kSizes), DType::uint32);
  };
  for (std::size_t i = 0; wanted.empty() && i < columns.size(); ++i) add(i);
  for (const std::string& name : wanted) {
    const auto found = std::ranges::find(columns, name, &MdsColumn::name);
    const auto shaped = std::ranges::find_if(
        columns, [&](const MdsColumn& c) { return c.has_shape && name == c.name + std::string(kShape); });
    if (found == columns.end() && shaped != columns.end()) {
      add_head(static_cast<std::size_t>(shaped - columns.begin()), name, DType::uint8);
      continue;
    }
    if (found == columns.end()) {
      throw failure(ErrorCode::not_found, "open {}: no column \"{}\"; it has \"{}\"", path, name,
                    fmt::join(names_of(columns), "\", \""));
    }
    add(static_cast<std::size_t>(found - columns.begin()));
  }
  return chosen;
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

MdsParts split_mds_value(const DatasetFile& file, const MdsColumn& column, ByteRange range) {
  const auto head = file.at(range.offset, std::min<std::uint64_t>(range.bytes, kMostHeadBytes));
  const std::size_t element = column.field->row_bytes();
  std::size_t begin = 0;  // of the extents or sizes
  std::uint64_t count = 0;
  std::size_t width = sizeof(std::uint32_t);
  if (column.is_list) {
    // A zero, in lists but not in arrays of images; how many; their sizes; the images.
    begin = head.size() >= 2 * width && load<std::uint32_t>(head) == 0 ? 2 * width : width;
    if (head.size() >= begin) count = load<std::uint32_t>(head, begin - width);
  } else if (!head.empty()) {
    // A byte: six bits of dimensions, two of the width of an extent; the extents; the values.
    const auto byte = std::to_integer<std::uint32_t>(head[0]);
    begin = 1;
    count = byte >> 2U;
    width = std::size_t{1} << (byte & 3U);
  }
  const std::uint64_t end = begin + count * width;
  const bool is_there = begin > 0 && begin <= head.size() && end <= range.bytes;
  const auto numbers = is_there ? file.at(range.offset + begin, count * width) : std::span<const std::byte>();
  std::uint64_t elements = column.is_list ? 0 : 1;
  bool is_whole = is_there && numbers.size() == count * width && (column.is_list || count > 0);
  for (std::size_t i = 0; is_whole && i < count; ++i) {
    std::uint64_t number = 0;
    std::memcpy(&number, &numbers[i * width], width);
    is_whole = column.is_list ? !__builtin_add_overflow(elements, number, &elements)
                              : !__builtin_mul_overflow(elements, number, &elements);
  }
  if (is_whole && elements <= range.bytes && elements * element == range.bytes - end) {
    const std::uint64_t skipped = column.is_list ? begin : 0;
    return {.head = {.offset = range.offset + skipped, .bytes = end - skipped},
            .values = {.offset = range.offset + end, .bytes = range.bytes - end},
            .count = count};
  }
  throw file.damage(range.offset, "column \"{}\" says that it has {} elements, in {} bytes", column.name,
                    elements, range.bytes);
}

}  // namespace rota::internal
