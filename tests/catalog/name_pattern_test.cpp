#include "catalog/name_pattern.hpp"
#include "catalog/listing.hpp"
#include "source/reading.hpp"
#include "test.hpp"

namespace rota::test::name_pattern_test {

TEST(NamePattern, NamesAreAsThePatternSays) {
  const auto name = [](std::string_view pattern) {
    return NamePattern::parse(pattern).name({.index = 42, .folder = 7, .total = 1000});
  };
  EXPECT_EQ(name("train/{folder:02}/img_{index:08}_of_{total}.npz"), "train/07/img_00000042_of_1000.npz");
  EXPECT_EQ(name("{index}"), "42");
  EXPECT_EQ(name("{total:06}/{folder}/{index:03}-{total}"), "001000/7/042-1000");
  EXPECT_EQ(name("{{{index}}}.x"), "{42}.x");
  EXPECT_EQ(name("{index:02}/data.npz"), "42/data.npz");
}

TEST(NamePattern, NumbersThatNeedMoreDigitsThanTheirWidthHaveThem) {
  const NamePattern pattern = NamePattern::parse("{index:03}");
  EXPECT_EQ(pattern.name({.index = 999}), "999");
  EXPECT_EQ(pattern.name({.index = 1000}), "1000");
  EXPECT_EQ(pattern.name({.index = 1'000'000'000'000'000'000}), "1000000000000000000");
}

TEST(NamePattern, TextIsThatOfAllThatAreTheSame) {
  for (const auto* text : {"a/{folder:02}/b{{{index:08}}}_{total}", "{index}", "x"}) {
    EXPECT_EQ(NamePattern::parse(text).text(), text);
  }
  EXPECT_EQ(NamePattern::parse("{index:01}").text(), "{index}");
}

TEST(NamePattern, DirectoryIsWhatGoesBeforeTheFirstField) {
  const NamePattern pattern = NamePattern::parse("/a/b{{/c_{folder}/{index}.x");
  EXPECT_EQ(pattern.directory(), "/a/b{/");
  EXPECT_EQ(pattern.below_directory().text(), "c_{folder}/{index}.x");
  EXPECT_EQ(pattern.through(NameField::folder).text(), "/a/b{{/c_{folder}");
  EXPECT_EQ(pattern.parent().text(), "/a/b{{/c_{folder}");
  EXPECT_EQ(NamePattern::parse("{index}").directory(), "");
  EXPECT_TRUE(NamePattern::parse("{index}").parent().parts().empty());
}

TEST(NamePattern, OneThatCannotBeReadIsRefused) {
  const auto parsing = [](std::string_view text) {
    return error_of([&] { NamePattern::parse(text).require_names(); });
  };
  const auto refused = [](const std::string& word) { return is_error(invalid_argument, {word}); };
  EXPECT_THAT(parsing("a{index"), refused("at byte 1 is alone"));
  EXPECT_THAT(parsing("a}{index}"), refused("at byte 1 is alone"));
  EXPECT_THAT(parsing("{number}"), refused("no field {number}"));
  for (const auto* width :
       {"{index:8}", "{index:00}", "{index:}", "{index:0x}", "{index:019}", "{index:0008}"}) {
    EXPECT_THAT(parsing(width), refused("the width of")) << width;
  }
  EXPECT_THAT(parsing("{total}"), refused("0 fields {index}"));
  EXPECT_THAT(parsing("{index}{index}"), refused("2 fields {index}"));
  EXPECT_THAT(parsing("{index}/"), refused("names directories"));
  EXPECT_THAT(parsing("{folder}_{index}"), refused("a directory above"));
  EXPECT_THAT(parsing("{index}/{folder}"), refused("a directory above"));
  EXPECT_THAT(parsing(std::string_view("{index}\0x", 9)), refused("zero byte"));
}

TEST(Listing, NamesOfVeryManyFilesTakeNoMemory) {
  constexpr std::int64_t kFiles = 1'000'000'000'000'000'000;
  const Listing listing({.pattern = NamePattern::parse("{folder:03}/{index}_of_{total}"),
                         .files = kFiles,
                         .folders = 1000,
                         .layout = FolderLayout::blocks});
  EXPECT_EQ(listing.size(), static_cast<std::size_t>(kFiles));
  const auto names = listing.read_names();
  EXPECT_EQ((*names)[0], "000/0_of_1000000000000000000");
  EXPECT_EQ((*names)[kFiles - 1], "999/999999999999999999_of_1000000000000000000");
  EXPECT_EQ((*names)[kFiles / 2 - 1], "499/499999999999999999_of_1000000000000000000");
}

}  // namespace rota::test::name_pattern_test
