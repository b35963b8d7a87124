#include "catalog/list_files.hpp"
#include "files/descriptor.hpp"
#include "test.hpp"

namespace rota::test::walk_test {

using Names = std::vector<std::string>;

class Walks : public Test {
 protected:
  Names walk(int threads) const {
    const Descriptor root = open_for_reading(AT_FDCWD, directory_.path().c_str());
    Names names;
    walk_directory(root.get(),
                   {.shown = directory_.path().string() + "/", .threads = threads, .all_names = true},
                   [&](std::string_view directory, std::string_view name) {
                     names.push_back(std::string(directory).append(name));
                   });
    return names;
  }

  Names naive() const {
    Names names;
    for (const auto& entry : fs::recursive_directory_iterator(directory_.path())) {
      if (entry.is_regular_file()) names.push_back(entry.path().lexically_relative(directory_.path()));
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  TemporaryDirectory directory_;
};

// Of bytes around the slash, and such as are negative where char is signed.
std::string random_name(std::mt19937_64& random) {
  static constexpr std::string_view kBytes = "-./0aZ\xC3\xFF ";
  std::string name;
  for (auto length = 1 + random() % 12; length > 0; --length) {
    const char c = kBytes[random() % kBytes.size()];
    name += c == '/' ? '0' : c;
  }
  return name == "." || name == ".." ? "dot" : name;
}

TEST_F(Walks, GiveTheOrderOfWholePathsWhateverTheTreeAndTheThreads) {
  std::mt19937_64 random(1);
  std::vector<fs::path> directories = {directory_.path()};
  for (int i = 0; i < 150; ++i) {
    const fs::path next = directories[random() % directories.size()] / random_name(random);
    if (fs::create_directory(next)) directories.push_back(next);
  }
  for (int i = 0; i < 1000; ++i) {
    const fs::path next = directories[random() % directories.size()] / random_name(random);
    if (!fs::exists(next)) directory_.write(next.lexically_relative(directory_.path()).string(), "");
  }
  const Names expected = naive();
  ASSERT_GT(expected.size(), 500U);
  for (const int threads : {0, 1, 2, 8}) EXPECT_EQ(walk(threads), expected) << threads << " threads";
}

TEST_F(Walks, OrderNamesThatDifferOnlyFarBehind) {
  for (const auto* end : {"", "a", "ab", "abcdefgh", "abcdefghi", "abcdefgh!", "\xFF"}) {
    directory_.write("shared/prefix/of/all/" + std::string(40, 'x') + end, "");
  }
  EXPECT_EQ(walk(1), naive());
}

TEST_F(Walks, EndWhenTheVisitorThrows) {
  for (int i = 0; i < 50; ++i) directory_.write(std::to_string(i) + "/file", "");
  const Descriptor root = open_for_reading(AT_FDCWD, directory_.path().c_str());
  int visited = 0;
  const NameVisitor visit = [&](std::string_view, std::string_view) {
    if (++visited == 3) throw std::runtime_error("enough");
  };
  EXPECT_THROW(walk_directory(root.get(), {.shown = "x/", .threads = 4}, visit), std::runtime_error);
  EXPECT_EQ(visited, 3);
}

}  // namespace rota::test::walk_test
