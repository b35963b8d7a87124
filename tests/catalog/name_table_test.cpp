#include "catalog/name_table.hpp"
#include "source/reading.hpp"
#include "test.hpp"

namespace rota::test::name_table_test {

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

TEST(NameTable, IsTheSameWhereverItsBytesLie) {
  std::mt19937_64 random(3);
  const Names names = random_names(3000, random);
  const NameTable table = pack(names);
  const auto copy = std::make_shared<std::vector<std::byte>>(table.bytes().begin(), table.bytes().end());
  EXPECT_EQ(unpack(NameTable(std::span<const std::byte>(*copy), copy)), names);
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
    try {
      unpack(NameTable(std::span<const std::byte>(*copy), copy));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), corrupt);
      ++refused;
    }
  }
  EXPECT_GT(refused, 20);
}

}  // namespace rota::test::name_table_test
