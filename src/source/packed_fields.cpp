#include "source/packed_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "core/failure.hpp"
#include "source/field_check.hpp"

namespace rota::internal {
namespace {

Error refusal(const std::string& what) { return {ErrorCode::invalid_argument, "pack documents: " + what}; }

/// The integers that a type can hold: [least, most].
struct IntegerRange {
  std::int64_t least = 0;
  std::int64_t most = 0;
};

// Nothing where `dtype` is no type of integers.
std::optional<IntegerRange> range_of(DType dtype) {
  const auto unused = 64 - static_cast<int>(size_of(dtype)) * 8;  // bits of an int64
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  if (to_string(dtype).starts_with("int")) return IntegerRange{-(most >> unused) - 1, most >> unused};
  if (!to_string(dtype).starts_with("uint")) return std::nullopt;
  return IntegerRange{0, unused == 0 ? most : most >> (unused - 1)};
}

// Of float16 and bfloat16 0 alone: the bits of all others would have to be made.
IntegerRange fill_range_of(DType dtype) {
  if (dtype == DType::boolean) return {0, 1};
  const std::int64_t most = dtype == DType::float32   ? std::int64_t{1} << 24
                            : dtype == DType::float64 ? std::int64_t{1} << 53
                                                      : 0;
  return range_of(dtype).value_or(IntegerRange{-most, most});
}

bool is_ragged_scalar(const Field& field) { return field.ragged && field.shape.empty(); }
bool holds_tokens(const Field& field) { return is_ragged_scalar(field) && range_of(field.dtype).has_value(); }

void refuse_made(const std::string& name) {
  for (const char* made : {kSegmentField, kPositionField}) {
    if (name != made) continue;
    throw refusal(
        fmt::format("one of their fields is named \"{}\", as one that packing adds; rename it", made));
  }
}

std::size_t find_field(const std::vector<Field>& fields, const std::string& name) {
  const auto found = std::ranges::find(fields, name, &Field::name);
  if (found != fields.end()) return static_cast<std::size_t>(found - fields.begin());
  throw failure(ErrorCode::not_found, "pack documents: no field \"{}\"; there are {}", name,
                describe(fields));
}

std::size_t find_tokens(const std::vector<Field>& fields, const std::string& name) {
  const auto count = std::ranges::count_if(fields, holds_tokens);
  if (name.empty() && count != 1) {
    throw refusal(
        fmt::format("{} of their fields are ragged, of scalar integers, and one is needed; name it (the "
                    "option field); there are {}",
                    count, describe(fields)));
  }
  if (name.empty())
    return static_cast<std::size_t>(std::ranges::find_if(fields, holds_tokens) - fields.begin());
  const std::size_t found = find_field(fields, name);
  if (holds_tokens(fields[found])) return found;
  throw refusal(
      fmt::format("field \"{}\" is not ragged, of scalar integers; there are {}", name, describe(fields)));
}

// `what` names it in messages.
Element make_element(const std::string& what, std::int64_t value, DType dtype) {
  const auto [least, most] = fill_range_of(dtype);
  if (value >= least && value <= most) return {value, dtype};
  throw refusal(
      fmt::format("{} is {}, and tokens of {} go from {} to {}", what, value, to_string(dtype), least, most));
}

std::optional<Element> make_optional(const char* what, std::optional<std::int64_t> value, DType dtype) {
  return value ? std::optional(make_element(what, *value, dtype)) : std::nullopt;
}

// A field that is packed with the tokens.
PackedField make_further(const std::vector<Field>& fields, const std::string& name, std::int64_t value,
                         const PackOptions& options) {
  const std::size_t index = find_field(fields, name);
  if (!is_ragged_scalar(fields[index])) {
    throw refusal(
        fmt::format("field \"{}\" is not ragged, of scalars: it has no value for each token; there are {}",
                    name, describe(fields)));
  }
  const Element element =
      make_element(fmt::format("what fills field \"{}\"", name), value, fields[index].dtype);
  return {.index = index,
          .field = fields[index],
          .bos = options.bos ? std::optional(element) : std::nullopt,
          .eos = options.eos ? std::optional(element) : std::nullopt,
          .pad = element};
}

}  // namespace

Element::Element(std::int64_t value, DType dtype) noexcept : bytes_(size_of(dtype)) {
  static_assert(std::endian::native == std::endian::little, "the low bytes of a number are its first");
  if (dtype == DType::float32) {
    value = std::bit_cast<std::int32_t>(static_cast<float>(value));
  } else if (dtype == DType::float64) {
    value = std::bit_cast<std::int64_t>(static_cast<double>(value));
  }
  std::memcpy(element_.data(), &value, sizeof(value));
}

void Element::fill(std::span<std::byte> to) const noexcept {
  for (std::size_t at = 0; at < to.size(); at += bytes_) std::memcpy(&to[at], element_.data(), bytes_);
}

void PackedField::put(const DocumentPiece& piece, std::byte* to, std::vector<SampleRows>& wanted) const {
  const std::size_t bytes = size_of(field.dtype);
  const std::int64_t before = bos ? 1 : 0;
  const bool has_eos = eos && piece.is_last;
  if (piece.first < before) bos->fill({to, bytes});
  const std::int64_t first = std::max(piece.first, before);
  const std::int64_t count = piece.first + piece.count - (has_eos ? 1 : 0) - first;
  if (count > 0) {
    wanted.push_back({.id = piece.document,
                      .first = first - before,
                      .count = count,
                      .to = to + static_cast<std::size_t>(first - piece.first) * bytes});
  }
  if (has_eos) eos->fill({to + static_cast<std::size_t>(piece.count - 1) * bytes, bytes});
}

std::vector<PackedField> packed_fields(const std::vector<Field>& documents, const PackOptions& options) {
  const std::size_t index = find_tokens(documents, options.field);
  const Field& tokens = documents[index];
  std::vector<PackedField> fields{{.index = index,
                                   .field = tokens,
                                   .bos = make_optional("bos", options.bos, tokens.dtype),
                                   .eos = make_optional("eos", options.eos, tokens.dtype),
                                   .pad = make_element("pad", options.pad, tokens.dtype)}};
  for (const auto& [name, value] : options.fields) {
    if (name == tokens.name)
      throw refusal(fmt::format("field \"{}\" is that of the tokens; leave it out of fields", name));
    fields.push_back(make_further(documents, name, value, options));
  }
  for (PackedField& packed : fields) {
    refuse_made(packed.field.name);
    packed.field.ragged = false;
    packed.field.shape = {options.length};
  }
  return fields;
}

}  // namespace rota::internal
