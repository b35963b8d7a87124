#include "catalog/name_ranges.hpp"
#include "source/reading.hpp"
#include "test.hpp"

namespace rota::test::name_ranges_test {

std::vector<std::string> expanded(const std::string& text) {
  std::vector<std::string> names;
  expand_ranges(text, [&](const std::string& name) { names.push_back(name); });
  return names;
}

TEST(NameRanges, AreExpandedInOrderWithTheDigitsOfTheFirst) {
  EXPECT_THAT(expanded("x-{08..11}.tar"), ElementsAre("x-08.tar", "x-09.tar", "x-10.tar", "x-11.tar"));
  EXPECT_THAT(expanded("{9..10}"), ElementsAre("9", "10"));
  EXPECT_THAT(expanded("{0..1}/{5..6}"), ElementsAre("0/5", "0/6", "1/5", "1/6"));
  EXPECT_THAT(expanded("{7..7}"), ElementsAre("7"));
  EXPECT_THAT(expanded("{9223372036854775806..9223372036854775807}"), SizeIs(2));
}

TEST(NameRanges, AreNothingElse) {
  for (const std::string text :
       {"", "x", "{", "{}", "{1}", "{1..}", "{..2}", "{1..2", "{a..b}", "{-1..2}", "{1.2}", "{1..-2}",
        "{index:03}", "{1...2}", "{9223372036854775808..9223372036854775809}"}) {
    EXPECT_EQ(find_range(text), std::string::npos) << text;
    EXPECT_THAT(expanded(text), ElementsAre(text));
  }
  EXPECT_EQ(find_range("{a}{1..2}"), 3U);
  EXPECT_THROW((void)expanded("{2..1}"), Error);
}

TEST(NameRanges, NameTheFilesOfACatalog) {
  const TemporaryDirectory directory;
  for (const auto* name : {"x-08", "x-09", "x-10", "{1..2}"}) directory.write(name, name);
  const std::string in = directory.path().string() + "/";
  EXPECT_EQ(Catalog(in + "x-{08..10}").size(), 3U);
  EXPECT_EQ(Catalog(in + "x-{08..10}").path(1), in + "x-09");
  EXPECT_EQ(Catalog(in + "{1..2}").size(), 1U) << "a file of that name";
  const auto error = [&](const std::string& path) { return error_of([&] { (void)Catalog(in + path); }); };
  EXPECT_THAT(error("x-{08..11}"), is_error(io));
  EXPECT_THAT(error("x-{10..08}"), is_error(invalid_argument));
  EXPECT_THAT(error("{1..11}{1..12}"), is_error(invalid_argument));
}

}  // namespace rota::test::name_ranges_test
