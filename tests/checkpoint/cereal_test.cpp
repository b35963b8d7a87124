// Blobs of anything: what is damaged, or made to harm, takes no more memory than it could hold.

#include <cereal/types/map.hpp>
#include <cereal/types/memory.hpp>
#include <cereal/types/optional.hpp>

#include "allocations.hpp"
#include "checkpoint_fixture.hpp"

namespace rota::test::cereal_test {

enum class Kind : std::uint16_t { none, some };

struct Leaf {
  bool is_set = false;
  Kind kind = Kind::none;
  std::vector<float> values;
  friend bool operator==(const Leaf&, const Leaf&) = default;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(is_set, kind, CEREAL_NVP(values));
  }
};

struct Tree {
  std::string name;
  std::vector<Leaf> leaves;
  std::map<std::string, std::vector<Numbers>> table;
  std::optional<double> rate;
  std::vector<bool> mask;
  friend bool operator==(const Tree&, const Tree&) = default;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(name, leaves, table, rate, mask);
  }
};

// Saved as another type, which cereal looks up by the output archive.
struct Celsius {
  double degrees = 0;
  template <typename Archive>
  double save_minimal(const Archive& /*archive*/) const {
    return degrees;
  }
  template <typename Archive>
  void load_minimal(const Archive& /*archive*/, const double& value) {
    degrees = value;
  }
};

Tree make_tree(std::size_t size) {
  Tree tree{.name = std::string(size, 'n'), .leaves = {}, .table = {}, .rate = 0.1, .mask = {}};
  for (std::size_t i = 0; i < size; ++i) {
    tree.leaves.push_back({.is_set = i % 2 == 0, .kind = Kind::some, .values = std::vector<float>(i, 1.5F)});
    tree.table["key " + std::to_string(i)] = {{1, 2, 3}, {}, {static_cast<std::int64_t>(i)}};
    tree.mask.push_back(i % 3 == 0);
  }
  return tree;
}

TEST(FromBlob, GivesBackWhatWasThere) {
  const Tree tree = make_tree(20);
  EXPECT_EQ(from_blob<Tree>(to_blob(tree)), tree);
  EXPECT_EQ(from_blob<Celsius>(to_blob(Celsius{21.5})).degrees, 21.5);
  EXPECT_EQ(*from_blob<std::unique_ptr<Leaf>>(to_blob(std::make_unique<Leaf>())), Leaf{});
}

TEST(FromBlob, ReadsWhatCerealItselfReads) {
  const Tree tree = make_tree(5);
  std::istringstream stream(to_blob(tree), std::ios::binary);
  cereal::PortableBinaryInputArchive archive(stream);
  Tree read;
  archive(read);
  EXPECT_EQ(read, tree);
}

TEST(FromBlob, BelievesNoLength) {
  for (const std::uint64_t length : {std::uint64_t{1} << 20, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    const std::string blob = to_blob(length) + std::string(100, 'x');
    watch_memory();
    EXPECT_ERROR(from_blob<std::vector<double>>(blob), corrupt, {"a length"});
    EXPECT_ERROR(from_blob<std::vector<Tree>>(blob), corrupt, {"a length"});
    EXPECT_ERROR(from_blob<std::string>(blob), corrupt, {"a length"});
    EXPECT_LT(watched_memory().largest, 10'000U);
  }
}

TEST(FromBlob, RefusesWhatIsOfAnotherTypeOrByteOrder) {
  EXPECT_ERROR(from_blob<std::vector<double>>(""), corrupt, {"decode"});
  EXPECT_ERROR(from_blob<std::int32_t>(to_blob(std::int64_t{1})), corrupt, {"left over"});
  std::string blob = to_blob(true);
  blob[1] = 2;
  EXPECT_ERROR(from_blob<bool>(blob), corrupt, {"a bool"});
  blob[0] = 0;
  EXPECT_ERROR(from_blob<bool>(blob), corrupt, {"begin"});
}

TEST(FromBlob, OfFlippedBitsTakesNoMoreMemoryThanAMultipleOfTheBlob) {
  std::mt19937_64 random(3);
  std::size_t refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string blob = to_blob(make_tree(random() % 12));
    for (auto flips = 1 + random() % 4; flips > 0; --flips) {
      blob[random() % blob.size()] ^= static_cast<char>(1 << random() % 8);
    }
    watch_memory();
    try {
      (void)from_blob<Tree>(blob);
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), corrupt);
      ++refused;
    }
    const auto [most, largest] = watched_memory();
    ASSERT_LE(std::max(most, largest), 2 * sizeof(Tree) * blob.size() + 4096) << "blob " << i;
  }
  EXPECT_GT(refused, 1000U);
}

}  // namespace rota::test::cereal_test
