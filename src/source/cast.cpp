#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/bytes.hpp"
#include "core/failure.hpp"
#include "rota/source.hpp"
#include "source/field_check.hpp"
#include "source/read_plan.hpp"
#include "source/scaling.hpp"
#include "source/source_facts.hpp"

namespace rota::internal {
namespace {

constexpr std::string_view kCasting = "cast fields";
constexpr std::size_t kElementsAtOnce = 512;

/// Converts up to kElementsAtOnce elements, from memory that does not overlap.
using ConvertElements = void (*)(const Scaling& scaling, const std::byte* from, std::byte* to,
                                 std::size_t count);

template <typename T>
constexpr bool kIsHalf = std::is_same_v<T, Half<DType::float16>> || std::is_same_v<T, Half<DType::bfloat16>>;

template <typename From, typename To>
constexpr bool keeps_values() {
  using Limits = std::numeric_limits<From>;
  if constexpr (std::is_same_v<To, bool>) return false;
  if constexpr (kIsHalf<To>) return !std::is_same_v<From, To>;
  if constexpr (kIsHalf<From> || std::is_floating_point_v<From>) return std::is_floating_point_v<To>;
  return Limits::digits <= std::numeric_limits<To>::digits && (std::is_signed_v<To> || !Limits::is_signed);
}

[[noreturn]] void refuse_large(double value, DType to) {
  throw failure(ErrorCode::corrupt, "{}: {} is too large for {}", kCasting, value, to_string(to));
}

// Of a double that no float is near to.
void require_float(double value) {
  constexpr double kFirstTooLarge = 0x1.ffffffp127;
  if (std::isfinite(value) && std::abs(value) >= kFirstTooLarge) refuse_large(value, DType::float32);
}

// The float nearest to zero's side of `value`, its last bit set where they differ: what has fewer bits is
// then rounded once, and not twice (S. Boldo, G. Melquiond, "When double rounding is odd", 2005).
template <typename From>
float round_to_odd(From value) {
  using Wide = std::conditional_t<(std::numeric_limits<From>::digits > 53), long double, double>;
  const auto near = static_cast<float>(value);
  const auto exact = static_cast<Wide>(value);
  const auto found = static_cast<Wide>(near);
  if (found == exact || std::isnan(near)) return near;
  const auto bits = std::bit_cast<std::uint32_t>(near);
  return std::bit_cast<float>((std::abs(found) > std::abs(exact) ? bits - 1 : bits) | 1U);
}

// The nearest one, the even one of two; nothing where that is infinity.
template <DType dtype>
std::optional<std::uint16_t> round_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  constexpr unsigned kDropped = dtype == DType::float16 ? 13 : 16;
  constexpr std::uint32_t kInfinity = 0x7f800000U;
  constexpr std::uint32_t kBias = dtype == DType::float16 ? 112U << 23U : 0;  // how the exponents differ
  constexpr std::uint32_t kHalfInfinity = dtype == DType::float16 ? 0x7c00U : 0x7f80U;
  std::uint32_t made = kHalfInfinity;
  if (magnitude > kInfinity) {
    made |= 1U << (22U - kDropped) | (magnitude & 0x7fffffU) >> kDropped;  // quiet, with what there is of it
  } else if (dtype == DType::float16 && magnitude < kBias + (1U << 23U)) {
    made = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + .5F) -
           std::bit_cast<std::uint32_t>(.5F);
  } else if (magnitude < kInfinity) {
    made = (magnitude - kBias + (1U << (kDropped - 1)) - 1 + (magnitude >> kDropped & 1U)) >> kDropped;
    if (made >= kHalfInfinity) return {};
  }
  return static_cast<std::uint16_t>((bits >> 16U & 0x8000U) | made);
}

// NOLINTBEGIN(cppcoreguidelines-pro-type-member-init): all that is read is written first
template <typename From, typename To>
void convert_elements(const Scaling& /*scaling*/, const std::byte* from, std::byte* to, std::size_t count) {
  using Stored = std::conditional_t<std::is_same_v<From, bool>, std::uint8_t, From>;
  std::array<Stored, kElementsAtOnce> values;  // which have no alignment where they lie
  std::memcpy(values.data(), from, count * sizeof(From));
  if constexpr (std::is_same_v<From, double> && std::is_same_v<To, float>) {
    std::for_each_n(values.begin(), count, require_float);
  }
  if constexpr (kIsHalf<To>) {
    std::array<std::uint16_t, kElementsAtOnce> made;
    for (std::size_t i = 0; i < count; ++i) {
      const auto value = static_cast<From>(values[i]);
      const auto half = round_to_half<To::kType>(round_to_odd(value));
      if (!half) refuse_large(static_cast<double>(value), To::kType);
      made[i] = *half;
    }
    std::memcpy(to, made.data(), count * sizeof(std::uint16_t));
  } else {
    std::array<To, kElementsAtOnce> made;
    // NOLINTNEXTLINE(bugprone-signed-char-misuse): int8 has a sign
    for (std::size_t i = 0; i < count; ++i) made[i] = static_cast<To>(static_cast<From>(values[i]));
    std::memcpy(to, made.data(), count * sizeof(To));
  }
}

template <DType dtype, typename To>
void convert_halves(const Scaling& scaling, const std::byte* from, std::byte* to, std::size_t count) {
  std::array<float, kElementsAtOnce> floats;
  to_floats(dtype, {from, count * sizeof(std::uint16_t)}, std::span(floats).first(count));
  convert_elements<float, To>(scaling, reinterpret_cast<const std::byte*>(floats.data()), to, count);
}

template <typename From, typename To>
void unscale_elements(const Scaling& scaling, const std::byte* from, std::byte* to, std::size_t count) {
  std::array<From, kElementsAtOnce> values;
  std::array<To, kElementsAtOnce> made;
  std::memcpy(values.data(), from, count * sizeof(From));
  for (std::size_t i = 0; i < count; ++i)
    made[i] = static_cast<To>(static_cast<double>(values[i]) * scaling.scale + scaling.offset);
  using Exact = std::conditional_t<std::is_integral_v<From> && sizeof(From) == 8, long double, double>;
  for (const long double number : scaling.missing) {
    const auto missing =
        static_cast<Exact>(std::is_same_v<From, float> ? static_cast<float>(number) : number);
    for (std::size_t i = 0; i < count; ++i) {
      if (static_cast<Exact>(values[i]) == missing) made[i] = std::numeric_limits<To>::quiet_NaN();
    }
  }
  std::memcpy(to, made.data(), count * sizeof(To));
}
// NOLINTEND(cppcoreguidelines-pro-type-member-init)

// Null where values would be lost.
template <typename From, typename To>
constexpr ConvertElements converter() {
  if constexpr (!keeps_values<From, To>())
    return nullptr;
  else if constexpr (kIsHalf<From>)
    return convert_halves<From::kType, To>;
  else
    return convert_elements<From, To>;
}
ConvertElements find_converter(DType from, DType to) {
  return with_type(from, [&](auto value) {
    return with_type(to, [](auto made) { return converter<decltype(value), decltype(made)>(); });
  });
}

ConvertElements find_unscaler(DType from, DType to) {
  return with_type(from, [&](auto value) -> ConvertElements {
    using From = decltype(value);
    if constexpr (std::is_floating_point_v<From> || (std::is_integral_v<From> && !std::is_same_v<From, bool>))
      return to == DType::float32 ? unscale_elements<From, float> : unscale_elements<From, double>;
    return nullptr;
  });
}

/// How one field is converted.
struct FieldCast {
  ConvertElements convert = nullptr;  ///< null: the field stays as it is
  std::size_t from_bytes = 0;         ///< of an element
  std::size_t to_bytes = 0;
  std::size_t from_row_bytes = 0;
  std::size_t to_row_bytes = 0;
  ScaledField scaled = {.scalings = {{}}, .ends = {}};  ///< without ends: the same for all samples

  // Of `field`, which becomes that.
  void set(Field& field, DType dtype) {
    from_bytes = size_of(field.dtype);
    from_row_bytes = field.row_bytes();
    field.dtype = dtype;
    to_bytes = size_of(dtype);
    to_row_bytes = field.row_bytes();
  }
  [[nodiscard]] const Scaling& scaling(SampleId id) const noexcept {
    const auto file = std::ranges::upper_bound(scaled.ends, id.value) - scaled.ends.begin();
    return scaled.scalings[static_cast<std::size_t>(file)];
  }

  /// The bytes before the conversion of what takes `bytes` after it.
  [[nodiscard]] std::size_t before(std::size_t bytes) const noexcept { return bytes / to_bytes * from_bytes; }
  [[nodiscard]] bool grows() const noexcept { return to_bytes >= from_bytes; }

  /// Fills `to` with what is at `from`: at its end, or in other memory. A piece is converted before its place
  /// is written to, and no piece reaches beyond those that are still to come.
  void fill(const Scaling& scaling, std::span<std::byte> to, const std::byte* from) const {
    for (std::size_t left = to.size() / to_bytes, at = 0; left > 0;) {
      const std::size_t count = std::min(left, kElementsAtOnce);
      convert(scaling, from + at * from_bytes, to.data() + at * to_bytes, count);
      at += count;
      left -= count;
    }
  }
};

class Cast final : public PlannedAdaptor {
 public:
  Cast(std::shared_ptr<const Source> source, std::vector<Field> fields, std::vector<FieldCast> casts)
      : PlannedAdaptor(std::move(source)), fields_(std::move(fields)), casts_(std::move(casts)) {}

  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }

  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    std::vector<BatchView::FieldMemory> memory(fields_.size());
    std::vector<std::vector<std::int64_t>> offsets(fields_.size());
    std::vector<std::unique_ptr<std::byte[]>> beside(fields_.size());
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      memory[f] = {.data = place(f, out.all(f), beside[f]), .row_bytes = casts_[f].from_row_bytes};
      if (!fields_[f].ragged) continue;
      offsets[f] = offsets_of(out, f, casts_[f].to_row_bytes);
      memory[f].offsets = offsets[f].data();
    }
    inner().read(ids, BatchView(memory, 0, ids.size(), out.epochs()));
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      if (casts_[f].convert != nullptr) fill(ids, f, out, memory[f].data);
    }
  }

  void read_rows(std::span<const SampleRows> wanted, std::size_t field) const override {
    const FieldCast& how = casts_[field];
    if (how.convert == nullptr) return inner().read_rows(wanted, field);
    std::vector<SampleRows> before(wanted.begin(), wanted.end());
    std::vector<std::unique_ptr<std::byte[]>> beside(wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i)
      before[i].to = place(field, memory_of(wanted[i], how), beside[i]);
    inner().read_rows(before, field);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      how.fill(how.scaling(wanted[i].id), memory_of(wanted[i], how), before[i].to);
  }

 private:
  void fill(std::span<const SampleId> ids, std::size_t f, const BatchView& out, const std::byte* from) const {
    const FieldCast& how = casts_[f];
    if (how.scaled.ends.empty()) return how.fill(how.scaled.scalings[0], out.all(f), from);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::span<std::byte> to = out.bytes(f, i);
      how.fill(how.scaling(ids[i]), to, from);
      from += how.before(to.size());
    }
  }

  // Of a count that cannot be: none, and the inner source refuses it.
  static std::span<std::byte> memory_of(const SampleRows& rows, const FieldCast& how) {
    return {rows.to, static_cast<std::size_t>(std::max<std::int64_t>(rows.count, 0)) * how.to_row_bytes};
  }

  // Where field f is read to, before it is converted into `out`: its end, or memory `beside` where it
  // shrinks.
  std::byte* place(std::size_t f, std::span<std::byte> out, std::unique_ptr<std::byte[]>& beside) const {
    const FieldCast& how = casts_[f];
    if (how.convert == nullptr) return out.data();
    const std::size_t bytes = how.before(out.size());
    if (how.grows()) return out.data() + (out.size() - bytes);
    beside = std::make_unique_for_overwrite<std::byte[]>(bytes);
    return beside.get();
  }

  [[nodiscard]] std::unique_ptr<const Source> wrap(std::shared_ptr<const Source> inner) const override {
    return std::make_unique<Cast>(std::move(inner), fields_, casts_);
  }

  std::vector<Field> fields_;
  std::vector<FieldCast> casts_;
};

[[noreturn]] void refuse_cast(const Field& field, DType to) {
  std::string wider;
  for (int i = 0; i <= static_cast<int>(DType::float64); ++i) {
    const auto other = static_cast<DType>(i);
    const bool rounds = other == DType::float16 || other == DType::bfloat16;
    if (other == field.dtype || rounds || find_converter(field.dtype, other) == nullptr) continue;
    wider += fmt::format("{}{}", wider.empty() ? "" : ", ", to_string(other));
  }
  throw failure(ErrorCode::invalid_argument,
                "{}: \"{}\" is {}, and may lose values as {}; cast it to one of {}, or convert it in a "
                "transform, if you know what is in it",
                kCasting, field.name, to_string(field.dtype), to_string(to), wider);
}

}  // namespace

std::shared_ptr<const Source> unscale(const std::shared_ptr<const Source>& source,
                                      std::map<std::string, ScaledField> scaled) {
  std::vector<Field> fields = source->fields();
  std::vector<FieldCast> casts(fields.size());
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const auto how = scaled.find(fields[f].name);
    const DType dtype = how == scaled.end() ? fields[f].dtype : how->second.dtype;
    if (how != scaled.end()) {
      casts[f].convert = find_unscaler(fields[f].dtype, dtype);
      casts[f].scaled = std::move(how->second);
    }
    casts[f].set(fields[f], dtype);
  }
  return std::make_shared<Cast>(source, std::move(fields), std::move(casts));
}

}  // namespace rota::internal

namespace rota {

std::shared_ptr<const Source> cast(const std::shared_ptr<const Source>& source,
                                   const std::map<std::string, DType>& types) {
  using internal::kCasting;
  internal::require_source(source, kCasting);
  std::vector<Field> fields = internal::ask_facts(*source, kCasting).fields;
  for (const auto& [name, dtype] : types) {
    if (std::ranges::find(fields, name, &Field::name) != fields.end()) continue;
    throw internal::failure(ErrorCode::not_found, "{}: there is no field \"{}\"; there are {}", kCasting,
                            name, internal::describe(fields));
  }
  std::vector<internal::FieldCast> casts(fields.size());
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const auto wanted = types.find(fields[f].name);
    const DType dtype = wanted == types.end() ? fields[f].dtype : wanted->second;
    if (dtype != fields[f].dtype) {
      casts[f].convert = internal::find_converter(fields[f].dtype, dtype);
      if (casts[f].convert == nullptr) internal::refuse_cast(fields[f], dtype);
    }
    casts[f].set(fields[f], dtype);
  }
  internal::check_fields(fields, kCasting, "the cast", ErrorCode::invalid_argument);
  return std::make_shared<internal::Cast>(source, std::move(fields), std::move(casts));
}

}  // namespace rota
