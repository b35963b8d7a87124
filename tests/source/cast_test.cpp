// Fields with other element types.

#include "source/documents.hpp"
#include "source/reading.hpp"

namespace rota::test::cast_test {

constexpr std::array kTypes = {DType::boolean,  DType::int8,    DType::int16,  DType::int32,  DType::int64,
                               DType::uint8,    DType::uint16,  DType::uint32, DType::uint64, DType::float16,
                               DType::bfloat16, DType::float32, DType::float64};

/// What the types can hold, the naive way.
struct Numbers {
  bool is_integer = true;
  bool is_signed = true;
  int bits = 0;  // of a magnitude
};
Numbers numbers_of(DType dtype) {
  const int width = static_cast<int>(size_of(dtype)) * 8;
  if (dtype == DType::boolean) return {.is_signed = false, .bits = 1};
  if (dtype == DType::float16) return {.is_integer = false, .bits = 11};
  if (dtype == DType::bfloat16) return {.is_integer = false, .bits = 8};
  if (dtype == DType::float32) return {.is_integer = false, .bits = 24};
  if (dtype == DType::float64) return {.is_integer = false, .bits = 53};
  const bool is_unsigned = to_string(dtype).starts_with('u');
  return {.is_signed = !is_unsigned, .bits = is_unsigned ? width : width - 1};
}
bool is_allowed(DType from, DType to) {
  if (from == to || (from == DType::float64 && to == DType::float32)) return true;
  if (to == DType::float16 || to == DType::bfloat16) return true;
  if (to == DType::boolean) return false;
  const Numbers a = numbers_of(from);
  const Numbers b = numbers_of(to);
  return (a.is_integer || !b.is_integer) && (!a.is_signed || b.is_signed) && a.bits <= b.bits;
}

/// Element k of sample i of any type, and as a number.
double number(std::int64_t i, std::int64_t k, DType dtype) {
  if (dtype == DType::boolean) return static_cast<double>((i + k) % 2);
  const auto magnitude = static_cast<double>(1 + (i * 31 + k * 7) % 100);
  return numbers_of(dtype).is_signed && k % 2 == 1 ? -magnitude : magnitude;
}
template <typename T>
void store_number(std::byte* to, double value) {
  const T stored = static_cast<T>(value);
  std::memcpy(to, &stored, sizeof(stored));
}
// Of numbers below 128, which bfloat16 has all of; so has float16 with other bits.
void put_number(std::byte* to, double value, DType dtype) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  const std::uint32_t magnitude = std::max(bits & 0x7fffffffU, 112U << 23U);
  switch (size_of(dtype)) {
    case 1:
      return store_number<std::int8_t>(to, value);
    case 2:
      if (dtype == DType::bfloat16) return store_number<std::uint16_t>(to, bits >> 16U);
      if (dtype != DType::float16) return store_number<std::int16_t>(to, value);
      return store_number<std::uint16_t>(to, (bits >> 16U & 0x8000U) | (magnitude - (112U << 23U)) >> 13U);
    case 4:
      return dtype == DType::float32 ? store_number<float>(to, value) : store_number<std::int32_t>(to, value);
    default:
      return dtype == DType::float64 ? store_number<double>(to, value)
                                     : store_number<std::int64_t>(to, value);
  }
}

/// 40 samples: "fixed" [3], "rows" [*, 2] of a type, and between them bytes that stay. It reads parts by
/// itself.
std::shared_ptr<ToldSource> typed(DType dtype) {
  auto source = told(40, {{.name = "fixed", .dtype = dtype, .shape = {3}},
                          {.name = "bytes", .dtype = DType::uint8, .ragged = true},
                          {.name = "rows", .dtype = dtype, .shape = {2}, .ragged = true}});
  source->reads_parts = true;
  // Some of no rows, and some of more than are converted at once.
  source->rows_of = [](SampleId id, std::size_t) {
    return id.value % 7 == 6 ? 700 + id.value : id.value % 5;
  };
  source->fill = [fields = source->fields()](SampleId id, std::size_t f, std::int64_t first,
                                             std::span<std::byte> to) {
    const std::size_t width = size_of(fields[f].dtype);
    std::int64_t k = first * static_cast<std::int64_t>(fields[f].row_bytes() / width);
    for (std::size_t at = 0; at < to.size(); at += width) {
      put_number(&to[at], number(id.value, k++, fields[f].dtype), fields[f].dtype);
    }
  };
  return source;
}

std::shared_ptr<const Source> cast_all(DType from, DType to) {
  return cast(typed(from), {{"fixed", to}, {"rows", to}});
}

std::string pair_of(DType from, DType to) { return fmt::format("{} to {}", to_string(from), to_string(to)); }

TEST(Cast, GivesTheSameNumbersInAnyTypeThatHoldsThem) {
  std::mt19937_64 random(7);
  for (const DType from : kTypes) {
    for (const DType to : kTypes) {
      if (!is_allowed(from, to)) continue;
      SCOPED_TRACE(pair_of(from, to));
      const auto source = cast_all(from, to);
      const Ids wanted = random_ids(*source, 30, random);
      const Samples samples(*source, wanted);
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        for (std::size_t f = 0; f < 3; ++f) {
          const DType dtype = f == 1 ? DType::uint8 : to;
          std::string expected = samples.sample(f, i);
          for (std::size_t k = 0; k < expected.size() / size_of(dtype); ++k) {
            const DType made_of = f == 1 ? DType::uint8 : from;
            put_number(reinterpret_cast<std::byte*>(expected.data()) + k * size_of(dtype),
                       number(wanted[i].value, static_cast<std::int64_t>(k), made_of), dtype);
          }
          ASSERT_EQ(samples.sample(f, i), expected) << "field " << f << " of sample " << wanted[i].value;
        }
      }
    }
  }
}

TEST(Cast, RefusesTypesThatMayLoseValuesAndNamesThoseThatDoNot) {
  for (const DType from : kTypes) {
    for (const DType to : kTypes) {
      SCOPED_TRACE(pair_of(from, to));
      const auto error = error_of([&] { cast_all(from, to); });
      if (is_allowed(from, to)) {
        EXPECT_FALSE(error.has_value());
        continue;
      }
      EXPECT_THAT(error, is_error(invalid_argument, {"\"fixed\"", std::string(to_string(from)),
                                                     std::string(to_string(to)), "in a transform"}));
    }
  }
  EXPECT_ERROR(cast_all(DType::int32, DType::float32), invalid_argument, {"one of int64, float64"});
}

/// One number of a type: the hardest ones.
template <typename To, typename From>
To cast_one(From value) {
  auto one = told(1, {{.name = "x", .dtype = kDTypeOf<From>}});
  one->fill = [value](SampleId, std::size_t, std::int64_t, std::span<std::byte> to) {
    std::memcpy(to.data(), &value, sizeof(value));
  };
  const auto source = cast(one, {{"x", kDTypeOf<To>}});
  return Samples(*source, {{0}}).values<To>(0, 0).at(0);
}

TEST(Cast, KeepsTheLeastAndTheGreatest) {
  EXPECT_EQ((cast_one<std::int64_t, std::int32_t>(std::numeric_limits<std::int32_t>::min())), -2147483648LL);
  EXPECT_EQ((cast_one<std::int64_t, std::uint32_t>(4294967295U)), 4294967295LL);
  EXPECT_EQ((cast_one<double, std::int32_t>(-2147483647)), -2147483647.0);
  EXPECT_EQ((cast_one<double, float>(std::numeric_limits<float>::denorm_min())), 0x1p-149);
  EXPECT_EQ((cast_one<float, double>(0.1)), 0.1F);
  EXPECT_EQ((cast_one<float, double>(-std::numeric_limits<double>::infinity())),
            -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(cast_one<float, double>(std::numeric_limits<double>::quiet_NaN())));
}

TEST(Cast, RefusesADoubleThatNoFloatIsNearTo) {
  constexpr double kGreatest = std::numeric_limits<float>::max();
  EXPECT_EQ((cast_one<float, double>(-kGreatest)), -std::numeric_limits<float>::max());
  EXPECT_EQ((cast_one<float, double>(std::nextafter(0x1.ffffffp127, 0))), std::numeric_limits<float>::max());
  for (const double value : {0x1.ffffffp127, -1e300, 1e39}) {
    EXPECT_ERROR((cast_one<float, double>(value)), corrupt, {"is too large for float32"});
  }
}

/// All of them at once, as the bits of a half.
template <typename From>
std::vector<std::uint16_t> round_all(const std::vector<From>& values, DType to) {
  const auto count = static_cast<std::int64_t>(values.size());
  auto all = told(1, {{.name = "x", .dtype = kDTypeOf<From>, .shape = {count}}});
  all->fill = [&](SampleId, std::size_t, std::int64_t, std::span<std::byte> out) {
    std::memcpy(out.data(), values.data(), out.size());
  };
  return Samples(*cast(all, {{"x", to}}), {{0}}).values<std::uint16_t>(0, 0);
}

// Each pair of neighbours, what lies in their middle, and what lies beside that, as floats and as doubles
// that only one rounding gets right.
TEST(Cast, RoundsToTheNearestHalfAndToTheEvenOneOfTwo) {
  for (const auto& [dtype, infinity] : {std::pair{DType::float16, 0x7c00U}, {DType::bfloat16, 0x7f80U}}) {
    std::vector<float> floats;
    std::vector<double> doubles;
    std::vector<std::uint16_t> of_floats;
    std::vector<std::uint16_t> of_doubles;
    const auto value_of = [&dtype = dtype](std::uint16_t bits) {
      float value = 0;
      to_floats(dtype, std::as_bytes(std::span(&bits, 1)), {&value, 1});
      return value;
    };
    for (const unsigned sign : {0U, 0x8000U}) {
      for (unsigned bits = 0; bits + 1 < infinity; ++bits) {
        const auto low = static_cast<std::uint16_t>(sign | bits);
        const auto high = static_cast<std::uint16_t>(sign | (bits + 1));
        const std::uint16_t even = bits % 2 == 0 ? low : high;
        const double from = value_of(low);
        const double to = value_of(high);
        const double middle = (from + to) / 2;
        doubles.insert(doubles.end(),
                       {from, std::nextafter(middle, from), middle, std::nextafter(middle, to)});
        of_doubles.insert(of_doubles.end(), {low, low, even, high});
        if (static_cast<double>(static_cast<float>(middle)) != middle) continue;  // below the least float
        const auto near = static_cast<float>(middle);
        floats.insert(floats.end(), {value_of(low), std::nextafter(near, value_of(low)), near,
                                     std::nextafter(near, value_of(high))});
        of_floats.insert(of_floats.end(), {low, low, even, high});
      }
    }
    EXPECT_EQ(round_all(floats, dtype), of_floats);
    EXPECT_EQ(round_all(doubles, dtype), of_doubles);
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    EXPECT_EQ(round_all(std::vector{kInfinity, -kInfinity}, dtype),
              (std::vector<std::uint16_t>{static_cast<std::uint16_t>(infinity),
                                          static_cast<std::uint16_t>(infinity | 0x8000U)}));
    const auto nans = round_all(std::vector{std::nanf(""), std::bit_cast<float>(0x7f800001U)}, dtype);
    EXPECT_TRUE(std::isnan(value_of(nans[0])) && std::isnan(value_of(nans[1])));
    const double greatest = value_of(static_cast<std::uint16_t>(infinity - 1));
    const double next = greatest + (greatest - value_of(static_cast<std::uint16_t>(infinity - 2))) / 2;
    EXPECT_EQ(round_all(std::vector{std::nextafter(next, 0)}, dtype)[0], infinity - 1);
    for (const double large : {next, -1e300}) {
      EXPECT_ERROR(round_all(std::vector{large}, dtype), corrupt,
                   {"too large for", std::string(to_string(dtype))});
    }
  }
}

TEST(Cast, RoundsLongIntegersOnce) {
  // Of 2^62 + 2^54: halfway between two of bfloat16, and one more.
  const std::vector<std::int64_t> values{(1LL << 62) + (1LL << 54), (1LL << 62) + (1LL << 54) + 1, 70, -3};
  EXPECT_EQ(round_all(values, DType::bfloat16), (std::vector<std::uint16_t>{0x5e80, 0x5e81, 0x428c, 0xc040}));
  EXPECT_ERROR(round_all(std::vector<std::int64_t>{65520}, DType::float16), corrupt);
  EXPECT_EQ(round_all(std::vector<std::int64_t>{65519}, DType::float16)[0], 0x7bff);
}

TEST(Cast, IsTheSameDataset) {
  const auto inner = typed(DType::int16);
  const auto source = cast(inner, {{"rows", DType::float32}});
  EXPECT_EQ(source->fingerprint(), inner->fingerprint());
  EXPECT_EQ(source->size(), inner->size());
  EXPECT_EQ(source->fields()[2].dtype, DType::float32);
  EXPECT_EQ(source->fields()[0], inner->fields()[0]);
  EXPECT_EQ(inner->fields()[2].dtype, DType::int16);
}

TEST(Cast, GivesDocumentsToPackAsTheyAreFromTheStart) {
  const std::vector<std::int64_t> lengths{5, 0, 3, 900, 8};
  const auto packed = pack(std::make_shared<Documents>(lengths), {.length = 16});
  const auto packed_of_cast = pack(
      cast(std::make_shared<Documents>(lengths, DType::int32), {{"tokens", DType::int64}}), {.length = 16});
  ASSERT_EQ(packed_of_cast->fields(), packed->fields());
  const Samples expected(*packed, all_ids(*packed));
  const Samples samples(*packed_of_cast, all_ids(*packed_of_cast));
  for (std::size_t i = 0; i < all_ids(*packed).size(); ++i)
    EXPECT_EQ(samples.sample(0, i), expected.sample(0, i));
}

TEST(Cast, IsReadByAllWorkersOfALoader) {
  for (const int workers : {0, 3}) {
    Loader loader(cast_all(DType::uint8, DType::float64), {.global_batch_size = 7, .workers = workers});
    double sum = 0;
    for (const Batch& batch : loader) {
      for (const double value : batch.tensor("fixed").as<double>()) sum += value;
    }
    double expected = 0;
    for (std::int64_t i = 0; i < 40; ++i) {
      for (std::int64_t k = 0; k < 3; ++k) expected += number(i, k, DType::uint8);
    }
    EXPECT_EQ(sum, expected);
  }
}

TEST(Cast, SaysWhichSamplesAndRowsThereAreNot) {
  const auto source = cast_all(DType::float64, DType::float32);
  EXPECT_ERROR(Samples(*source, {{40}}), out_of_range, {"40"});
  std::array<std::byte, 64> memory{};
  for (const std::int64_t count : {-1, 3}) {
    const std::array wanted = {SampleRows{.id = {2}, .first = 0, .count = count, .to = memory.data()}};
    EXPECT_ERROR(source->read_rows(wanted, 2), out_of_range);
  }
}

TEST(Cast, NeedsASourceThatHasTheFields) {
  EXPECT_ERROR(cast(nullptr, {}), invalid_argument, {"null pointer"});
  EXPECT_ERROR(cast(typed(DType::int8), {{"labels", DType::int64}}), not_found,
               {"no field \"labels\"", "\"fixed\" int8[3]"});
}

}  // namespace rota::test::cast_test
