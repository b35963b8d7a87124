#include "cli/output.hpp"
#include "test.hpp"

namespace rota::test::shown_text_test {

using rota::DType;
using rota::cli::human_bytes;
using rota::cli::preview;
using rota::cli::shown;

TEST(ShownText, LeavesTextInAnyWritingAsItIs) {
  EXPECT_EQ(shown("a b/c.tar"), "a b/c.tar");
  EXPECT_EQ(shown("Größe 大小 🦀"), "Größe 大小 🦀");
}

TEST(ShownText, StaysOnOneLineAndLeavesTheTerminalAlone) {
  EXPECT_EQ(shown("a\nb\tc\r\\"), "a\\nb\\tc\\r\\\\");
  EXPECT_EQ(shown("\x1b[31m\x7f"), "\\x1b[31m\\x7f");
  EXPECT_EQ(shown("\xc2\x9b"), "\\xc2\\x9b");                             // the control characters of 8 bits
  EXPECT_EQ(shown(std::string("\xe2") + "\x80\xae"), "\\xe2\\x80\\xae");  // from right to left
  EXPECT_EQ(shown(std::string("a\0b", 3)), "a\\x00b");
}

TEST(ShownText, EscapesBytesThatAreNoUtf8) {
  EXPECT_EQ(shown("\xff"), "\\xff");
  EXPECT_EQ(shown("\xc3"), "\\xc3");  // cut short
  EXPECT_EQ(shown("\xc3(\xbf"), "\\xc3(\\xbf");
  EXPECT_EQ(shown("\xc0\xaf"), "\\xc0\\xaf");           // overlong
  EXPECT_EQ(shown("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(shown("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

TEST(ShownText, RoundsAmountsOfBytes) {
  EXPECT_EQ(human_bytes(1), "1 byte");
  EXPECT_EQ(human_bytes(1023), "1,023 bytes");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(human_bytes(INT64_MAX), "8.0 EiB");
}

template <typename T>
std::string numbers(DType dtype, std::vector<T> values) {
  return preview({.name = "x", .dtype = dtype, .shape = {2}}, std::as_bytes(std::span(values)));
}

std::string text(const std::string& bytes) {
  return preview({.name = "x", .ragged = true}, std::as_bytes(std::span(bytes)));
}

TEST(Preview, ShowsTheFirstNumbers) {
  EXPECT_EQ(numbers<std::int64_t>(DType::int64, {-1, 2}), "-1 2");
  EXPECT_EQ(numbers<std::int8_t>(DType::int8, {-128, 65}), "-128 65");
  EXPECT_EQ(numbers<float>(DType::float32, {0.5, 1e20F}), "0.5 1e+20");
  EXPECT_EQ(numbers<std::uint8_t>(DType::boolean, {0, 1}), "false true");
  EXPECT_EQ(numbers<std::uint8_t>(DType::uint8, std::vector<std::uint8_t>(99, 7)), "7 7 7 7 7 7 7 7 ...");
  EXPECT_EQ(numbers<std::uint8_t>(DType::uint8, {}), "");
}

TEST(Preview, ShowsNumbersOfSixteenBits) {
  EXPECT_EQ(numbers<std::uint16_t>(DType::float16, {0x3c00, 0xc000, 0x7c00, 0x0001, 0x8000}),
            "1 -2 inf 5.96046e-08 -0");
  EXPECT_EQ(numbers<std::uint16_t>(DType::bfloat16, {0x3f80, 0xc000}), "1 -2");
}

TEST(Preview, ShowsTextAsTextAndOtherBytesAsDigits) {
  EXPECT_EQ(text("hello\n"), "\"hello\\n\"");
  EXPECT_EQ(text(""), "\"\"");
  EXPECT_EQ(text("\x89PNG\r\n"), "89 50 4e 47 0d 0a");
  EXPECT_EQ(text(std::string(20, '\0')), "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 ...");
}

TEST(Preview, CutsTextBetweenCharacters) {
  std::string umlauts = "a";
  for (int i = 0; i < 200; ++i) umlauts += "ü";
  std::string beginning = "a";
  for (int i = 0; i < 29; ++i) beginning += "ü";
  EXPECT_EQ(text(umlauts), "\"" + beginning + "\" ...");
  EXPECT_TRUE(text(umlauts.substr(0, 100)).starts_with("61 c3 bc"));  // it ends in half of one
}

}  // namespace rota::test::shown_text_test
