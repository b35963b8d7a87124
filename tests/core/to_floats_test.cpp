#include "source/reading.hpp"

namespace rota::test::to_floats_test {

/// A float of 16 bits, as IEEE 754 says what it is.
struct Layout {
  DType dtype;
  unsigned exponent_bits;
  unsigned mantissa_bits;
};

float value_of(const Layout& layout, unsigned bits) {
  const unsigned mantissa = bits & ((1U << layout.mantissa_bits) - 1);
  const unsigned exponent = bits >> layout.mantissa_bits & ((1U << layout.exponent_bits) - 1);
  const int scale = 2 - (1 << (layout.exponent_bits - 1)) - static_cast<int>(layout.mantissa_bits);
  double value = std::ldexp(mantissa, scale);
  if (exponent > 0) {
    value = std::ldexp(mantissa + (1U << layout.mantissa_bits), scale + static_cast<int>(exponent) - 1);
  }
  if (exponent == (1U << layout.exponent_bits) - 1) value = std::numeric_limits<double>::infinity();
  return static_cast<float>(bits >> 15U == 1 ? -value : value);
}

bool is_nan(const Layout& layout, unsigned bits) {
  return (bits & 0x7fffU) > ((1U << layout.exponent_bits) - 1) << layout.mantissa_bits;
}

void expect_exact(const Layout& layout) {
  std::vector<std::byte> memory(2 * 65'536 + 1);
  for (unsigned k = 0; k < 65'536; ++k) {
    const auto bits = static_cast<std::uint16_t>(k);
    std::memcpy(memory.data() + 1 + std::size_t{2} * k, &bits, 2);  // not aligned
  }
  std::vector<float> floats(65'536);
  to_floats(layout.dtype, std::span(memory).subspan(1), floats);
  for (unsigned bits = 0; bits < 65'536; ++bits) {
    const auto got = std::bit_cast<std::uint32_t>(floats[bits]);
    if (is_nan(layout, bits)) {
      const std::uint32_t payload = bits & ((1U << layout.mantissa_bits) - 1);
      ASSERT_EQ(got, (bits >> 15U) << 31U | 0xffU << 23U | payload << (23U - layout.mantissa_bits)) << bits;
    } else {
      ASSERT_EQ(got, std::bit_cast<std::uint32_t>(value_of(layout, bits))) << bits;
    }
  }
}

TEST(ToFloats, IsExactForEveryNumberThereIs) {
  expect_exact({DType::float16, 5, 10});
  expect_exact({DType::bfloat16, 8, 7});
}

TEST(ToFloats, CopiesFloats) {
  const std::vector<float> from{1.5F, -0.0F, 1e-45F};
  std::vector<float> to(3);
  to_floats(DType::float32, std::as_bytes(std::span(from)), to);
  EXPECT_EQ(to, from);
  to_floats(DType::float32, {}, {});
}

TEST(ToFloats, RefusesOtherTypesAndRoomForMoreOrFewer) {
  const auto error = [](DType dtype, std::size_t bytes, std::size_t floats) {
    const std::vector<std::byte> from(bytes);
    std::vector<float> to(floats);
    return error_of([&] { to_floats(dtype, from, to); });
  };
  for (int d = 0; d <= static_cast<int>(DType::float64); ++d) {
    const auto dtype = static_cast<DType>(d);
    if (dtype != DType::float16 && dtype != DType::bfloat16 && dtype != DType::float32) {
      EXPECT_THAT(error(dtype, 2 * size_of(dtype), 2), is_error(mismatch, {}));
      continue;
    }
    EXPECT_FALSE(error(dtype, 2 * size_of(dtype), 2));
    EXPECT_THAT(error(dtype, 2 * size_of(dtype), 1), is_error(invalid_argument, {}));
    EXPECT_THAT(error(dtype, 2 * size_of(dtype) - 1, 2), is_error(invalid_argument, {}));
  }
}

}  // namespace rota::test::to_floats_test
