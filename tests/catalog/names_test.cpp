// Names of files: those of a pattern, of ranges, and the table that holds them.

#include "catalog/list_files.hpp"
#include "catalog/listing.hpp"
#include "catalog/name_pattern.hpp"
#include "catalog/name_table.hpp"
#include "source/reading.hpp"

namespace rota::test::names_test {

TEST(NamePattern, NamesAreAsThePatternSays) {
  const auto name = [](const char* pattern) {
    return NamePattern(pattern).name({.index = 42, .folder = 7, .total = 1000});
  };
  EXPECT_EQ(name("train/{folder:02}/img_{index:08}_of_{total}.npz"), "train/07/img_00000042_of_1000.npz");
  EXPECT_EQ(name("{index}"), "42");
  EXPECT_EQ(name("{total:06}/{folder}/{index:03}-{total}"), "001000/7/042-1000");
  EXPECT_EQ(name("{{{index}}}.x"), "{42}.x");
  EXPECT_EQ(name("{index:02}/data.npz"), "42/data.npz");
  EXPECT_EQ(name("{folder+1:02}/{index+58:03}_{index+0}"), "08/100_42");
}

TEST(NamePattern, NumbersThatNeedMoreDigitsThanTheirWidthHaveThem) {
  const NamePattern pattern("{index:03}");
  EXPECT_EQ(pattern.name({.index = 999}), "999");
  EXPECT_EQ(pattern.name({.index = 1000}), "1000");
  EXPECT_EQ(pattern.name({.index = 1'000'000'000'000'000'000}), "1000000000000000000");
}

TEST(NamePattern, NegativeNumbersMakeNoName) {
  EXPECT_EQ(NamePattern("{folder}/{index+2}").name({.index = -2}), "0/0");
  EXPECT_EQ(NamePattern("{folder}/{index+2}").name({.index = -3}), "");
  EXPECT_EQ(NamePattern("{folder}/{index}").name({.folder = -1}), "");
}

TEST(NamePattern, TotalIsReadFromNamesThatAreItsOwn) {
  const NamePattern pattern("x{total}_{index+1:03}_of_{total:03}");
  EXPECT_EQ(pattern.total_in("x12_001_of_012"), 12);
  EXPECT_EQ(pattern.total_in("x1234_1000_of_1234"), 1234);
  for (const auto* other :
       {"", "x", "x12", "x12_001_of_12", "x12_001_of_012.old", "y12_001_of_012", "x13_001_of_012",
        "x12_1_of_012", "x-1_001_of_-01", "x99999999999999999999_001_of_012"}) {
    EXPECT_EQ(pattern.total_in(other), 0) << other;
  }
}

TEST(NamePattern, DirectoryIsWhatGoesBeforeTheFirstField) {
  const NamePattern pattern("/a/b{{/c_{folder}/{index}.x");
  EXPECT_EQ(pattern.below_directory(), 7);
  EXPECT_EQ(pattern.text().substr(pattern.below_directory()), "c_{folder}/{index}.x");
  EXPECT_EQ(pattern.through(&NameNumbers::folder).text(), "/a/b{{/c_{folder}");
  EXPECT_EQ(NamePattern("{index}").below_directory(), 0);
}

TEST(NamePattern, OneThatCannotBeReadIsRefused) {
  const auto parse = [](const std::string& text) { NamePattern(text).require_names(); };
  EXPECT_ERROR(parse("a{index"), invalid_argument, {"byte 1 begins no field"});
  EXPECT_ERROR(parse("a}{index}"), invalid_argument, {"byte 1 begins no field"});
  EXPECT_ERROR(parse("{number}"), invalid_argument,
               {"{number}", "byte 0 begins no field", "{folder} or {total}"});
  for (const auto* field :
       {"{index:8}", "{index:00}", "{index:}", "{index:0x}", "{index:019}", "{index:0008}", "{index-1}",
        "{index+}", "{index+1000000000000000000}", "{total+1}"}) {
    EXPECT_ERROR(parse(field), invalid_argument, {"{index:01} to {index:018}, {index+1}"}) << field;
  }
  EXPECT_ERROR(parse("{total}"), invalid_argument, {"0 fields {index}"});
  EXPECT_ERROR(parse("{index}{index}"), invalid_argument, {"2 fields {index}"});
  EXPECT_ERROR(parse("{index}/"), invalid_argument, {"names directories"});
  EXPECT_ERROR(parse("{folder}_{index}"), invalid_argument, {"a directory above"});
  EXPECT_ERROR(parse("{index}/{folder}"), invalid_argument, {"a directory above"});
  EXPECT_ERROR(parse(std::string("{index}\0x", 9)), invalid_argument, {"byte 7"});
}

TEST(Listing, NamesOfVeryManyFilesTakeNoMemory) {
  constexpr std::int64_t kFiles = 1'000'000'000'000;
  const Listing listing({.pattern = NamePattern("{folder:03}/{index}_of_{total}"),
                         .files = kFiles,
                         .folders = 1000,
                         .layout = FolderLayout::blocks});
  EXPECT_EQ(listing.size(), static_cast<std::size_t>(kFiles));
  const auto names = listing.read_names();
  EXPECT_EQ((*names)[0], "000/0_of_1000000000000");
  EXPECT_EQ((*names)[kFiles - 1], "999/999999999999_of_1000000000000");
  EXPECT_EQ((*names)[kFiles / 2 - 1], "499/499999999999_of_1000000000000");
}

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
  EXPECT_ERROR(Catalog(in + "x-{08..11}"), io);
  EXPECT_ERROR(Catalog(in + "x-{10..08}"), invalid_argument);
  EXPECT_ERROR(Catalog(in + "{1..11}{1..12}"), invalid_argument);
}

using Names = std::vector<std::string>;

NameTable pack(const Names& names) {
  NameTableBuilder builder;
  for (const std::string& name : names) builder.add("", name);
  return builder.finish();
}

Names unpack(const NameTable& table) {
  NameReader reader(table);
  Names names;
  for (std::size_t i = 0; i < table.size(); ++i) names.push_back(reader[i]);
  return names;
}

std::string numbered(std::size_t i) {
  return fmt::format("train/{:03}/img_{:08}_of_50000000.npz", i / 100'000, i);
}

// Names that share much with the one before, or little, or are it.
Names random_names(std::size_t count, std::mt19937_64& random) {
  Names names;
  for (std::size_t i = 0; i < count; ++i) {
    std::string name = random() % 5 == 0 || names.empty() ? numbered(i) : names.back();
    for (auto edits = random() % 4; edits > 0; --edits) {
      const std::size_t at = random() % (name.size() + 1);
      name.replace(at, random() % 3, random() % 40, static_cast<char>(1 + random() % 255));
    }
    if (random() % 500 == 0) name.insert(0, random() % 60'000, 'x');
    if (random() % 100 == 0) name.clear();
    names.push_back(std::move(name));
  }
  return names;
}

class NameTables : public TestWithParam<std::size_t> {};

TEST_P(NameTables, GiveBackEveryNameInAnyOrder) {
  std::mt19937_64 random(GetParam());
  const Names names = random_names(GetParam(), random);
  const NameTable table = pack(names);
  ASSERT_EQ(table.size(), names.size());
  EXPECT_EQ(unpack(table), names);
  const auto copy = std::make_shared<std::vector<std::byte>>(table.bytes().begin(), table.bytes().end());
  EXPECT_EQ(unpack(NameTable(std::span<const std::byte>(*copy), copy)), names);  // wherever its bytes lie
  NameReader reader(table);
  for (std::size_t k = 0; k < std::min<std::size_t>(4 * names.size(), 4000); ++k) {
    const std::size_t i = random() % names.size();
    ASSERT_EQ(reader[i], names[i]);
    if (i + 1 < names.size()) {
      ASSERT_EQ(reader[i + 1], names[i + 1]);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Sizes, NameTables, Values(0, 1, 2, 63, 64, 65, 1023, 1024, 1025, 2048, 5000),
                         PrintToStringParamName());

TEST(NameTable, JoinsDirectoryAndName) {
  NameTableBuilder builder;
  builder.add("a/b/", "c");
  EXPECT_EQ(builder.finish()[0], "a/b/c");
}

TEST(NameTable, TakesLessThanAByteOfANumberedName) {
  Names names;
  for (std::size_t i = 0; i < 100'000; ++i) names.push_back(numbered(i));
  EXPECT_LT(pack(names).bytes().size(), names.size());
}

TEST(NameTable, RefusesANameThatItCannotHold) {
  NameTableBuilder builder;
  builder.add("", std::string(65'535, 'x'));
  EXPECT_ERROR(builder.add("x", std::string(65'535, 'x')), unsupported);
}

// Names of a damaged table may be wrong, which is for a digest to find, but reading them does no harm.
TEST(NameTable, DoesNoHarmWhereItIsDamaged) {
  std::mt19937_64 random(4);
  const NameTable table = pack(random_names(1500, random));
  int refused = 0;
  for (std::size_t at = 0; at < table.bytes().size(); at += 1 + random() % 40) {
    const auto copy = std::make_shared<std::vector<std::byte>>(table.bytes().begin(), table.bytes().end());
    (*copy)[at] ^= static_cast<std::byte>(1U << random() % 8);
    if (random() % 4 == 0) copy->resize(at);
    const auto error = error_of([&] { unpack(NameTable(std::span<const std::byte>(*copy), copy)); });
    if (!error) continue;
    EXPECT_THAT(error, is_error(corrupt));
    ++refused;
  }
  EXPECT_GT(refused, 20);
}

}  // namespace rota::test::names_test
