// Catalogs whose names are computed, against files that were made the naive way.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "catalog/discovery.hpp"
#include "catalog/files.hpp"
#include "rota/open.hpp"
#include "source/reading.hpp"
#include "temporary_directory.hpp"

namespace rota::test {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_of(const Catalog& catalog) {
  const auto reader = files_of(catalog).read_names();
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < catalog.size(); ++i) {
    names.push_back((*reader)[static_cast<std::size_t>(i)]);
  }
  return names;
}

/// A dataset such as others write: numbers, and a pattern that says how they are written.
struct Written {
  std::int64_t files = 1;
  std::int64_t folders = 0;  // 0: none
  std::int64_t first_index = 0;
  std::int64_t first_folder = 0;
  FolderLayout layout = FolderLayout::round_robin;
  int width = 1;
  int folder_width = 1;
  int total_width = 0;  // 0: none

  [[nodiscard]] std::string pattern() const {
    const auto field = [](std::string_view name, int digits) {
      return digits == 1 ? fmt::format("{{{}}}", name) : fmt::format("{{{}:0{}}}", name, digits);
    };
    return (folders > 0 ? "part-" + field("folder", folder_width) + "/" : "") + "img_" +
           field("index", width) + (total_width > 0 ? "_of_" + field("total", total_width) : "") + ".h5";
  }
  [[nodiscard]] std::string name(std::int64_t folder, std::int64_t index) const {
    return (folders > 0 ? fmt::format("part-{:0{}}/", first_folder + folder, folder_width) : "") +
           fmt::format("img_{:0{}}", first_index + index, width) +
           (total_width > 0 ? fmt::format("_of_{:0{}}", files, total_width) : "") + ".h5";
  }
  // One file after the other.
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    const std::int64_t f = std::max<std::int64_t>(folders, 1);
    for (std::int64_t i = 0; i < files; ++i) {
      std::int64_t folder = i % f;
      if (layout == FolderLayout::blocks) {
        for (folder = 0; (folder + 1) * files <= i * f;) ++folder;
      }
      const bool restarts = layout == FolderLayout::restart;
      names.push_back(restarts ? name(i / (files / f), i % (files / f)) : name(folder, i));
    }
    return names;
  }
};

class Pattern : public testing::Test {
 public:
  [[nodiscard]] std::string at(std::string_view name) const { return (directory / name).string(); }
  void write(const std::vector<std::string>& names) const {
    for (const std::string& name : names) directory.write(name, name);
  }
  /// "img_7.x" and so on, but for those left out.
  void write_images(std::int64_t from, std::int64_t to) const {
    for (std::int64_t i = from; i < to; ++i) directory.write(fmt::format("img_{}.x", i), "");
  }
  [[nodiscard]] std::optional<Error> making(std::string_view pattern,
                                            const PatternOptions& options = {}) const {
    return error_of([&] { Catalog::from_pattern(at(pattern), options); });
  }
  /// How many there are in a catalog of all defaults.
  [[nodiscard]] std::int64_t count(std::string_view pattern) const {
    return Catalog::from_pattern(at(pattern)).size();
  }

  TemporaryDirectory directory;
};

Written any_dataset(std::mt19937_64& random) {
  const auto any = [&](std::int64_t from, std::int64_t to) {
    return std::uniform_int_distribution<std::int64_t>(from, to)(random);
  };
  Written data;
  data.folders = any(0, 3) == 0 ? 0 : any(1, 12);
  const std::int64_t in_folder = any(1, any(0, 1) == 0 ? 4 : 30);
  data.files = std::max<std::int64_t>(data.folders, 1) * in_folder;
  data.layout = std::array{FolderLayout::round_robin, FolderLayout::blocks,
                           FolderLayout::restart}[static_cast<std::size_t>(any(0, 2))];
  if (data.layout != FolderLayout::restart && data.folders > 0) data.files += any(0, data.folders - 1);
  if (data.folders == 0) data.layout = FolderLayout::round_robin;
  data.first_index = any(0, 1);
  data.first_folder = data.folders > 0 ? any(0, 1) : 0;
  data.width = static_cast<int>(any(1, 4));
  data.folder_width = static_cast<int>(any(1, 3));
  data.total_width = static_cast<int>(any(0, 4));
  return data;
}

TEST_F(Pattern, NamesAreThoseOfTheFilesAndAreRecognised) {
  std::mt19937_64 random(20261120);
  for (int i = 0; i < 250; ++i) {
    const Written data = any_dataset(random);
    const std::string below = fmt::format("{}", i);
    const auto names = data.names();
    for (const std::string& name : names) directory.write(fmt::format("{}/{}", below, name), "");
    SCOPED_TRACE(fmt::format("{}: {} files, {} folders, {}", data.pattern(), data.files, data.folders,
                             to_string(data.layout)));
    const Catalog made = Catalog::from_pattern(at(below + "/" + data.pattern()));
    ASSERT_EQ(names_of(made), names);
    const Catalog recognised = Catalog::from_pattern(at(below));
    ASSERT_EQ(names_of(recognised), names);
    ASSERT_EQ(recognised.fingerprint(), made.fingerprint());
    const Catalog told =
        Catalog::from_pattern(at(below + "/" + data.pattern()),
                              {.files = data.files,
                               .first_index = data.first_index,
                               .folders = data.folders,
                               .layout = data.folders > 0 ? data.layout : FolderLayout::automatic});
    ASSERT_EQ(told.fingerprint(), made.fingerprint());
    fs::remove_all(directory / below);
  }
}

TEST_F(Pattern, CatalogIsReadAsOneThatWasListed) {
  write({"img_1.x", "img_2.x", "img_3.x", "img_4.x"});
  const Catalog made = Catalog::from_pattern(at("img_{index}.x"));
  const Catalog listed(directory.path());
  EXPECT_EQ(made.evidence(), Evidence::names);
  EXPECT_EQ(made.path(3), at("img_4.x"));
  EXPECT_EQ(made.origin(), at("img_{index}.x"));
  EXPECT_NE(made.fingerprint(), Catalog(directory.path(), {.evidence = Evidence::names}).fingerprint());
  const auto source = open_files(made);
  EXPECT_EQ(Samples(*source, ids({2})).sample(0, 0), "img_3.x");
  const FileList sized = files_of(made).with_sizes();
  EXPECT_EQ(sized.bytes(3), 7);
  EXPECT_EQ(sized.fingerprint(), files_of(listed).fingerprint());
}

TEST_F(Pattern, PlacementHasNothingToPlace) {
  write_images(0, 20);
  const Catalog catalog =
      Catalog::from_pattern(at("img_{index}.x"), {}, {.placement = Placement::distributed});
  EXPECT_EQ(names_of(catalog).back(), "img_19.x");
  EXPECT_EQ(files_of(catalog).with_sizes().table().size(), 20);
}

TEST_F(Pattern, GeneratedCatalogIsNotSaved) {
  write_images(0, 2);
  const Catalog catalog = Catalog::from_pattern(at("img_{index}.x"));
  EXPECT_THAT(error_of([&] { catalog.save(directory / "saved"); }),
              is_error(ErrorCode::unsupported, {"made of a pattern"}));
  EXPECT_FALSE(fs::exists(directory / "saved"));
}

TEST_F(Pattern, FingerprintIsOfPatternAndNumbers) {
  write_images(0, 20);
  fs::copy(directory.path(), directory / "../" / (directory.path().filename().string() + "-copy"));
  const auto of = [&](const PatternOptions& options) {
    return Catalog::from_pattern(at("img_{index}.x"), options).fingerprint();
  };
  EXPECT_EQ(of({}), of({.files = 20, .first_index = 0, .seed = 7}));
  EXPECT_NE(of({}), of({.files = 19}));
  EXPECT_NE(of({.files = 19}), of({.files = 19, .first_index = 1}));
  const std::string copy = directory.path().string() + "-copy";
  EXPECT_EQ(Catalog::from_pattern(copy).fingerprint(), of({}));
  fs::remove_all(copy);
}

TEST_F(Pattern, TotalIsReadFromAnyName) {
  write({"a/x_3of5", "a/x_4of5", "a/x_0of5", "a/x_2of5", "a/x_1of5", "a/other", "a/x_5of05"});
  EXPECT_EQ(count("a/x_{index}of{total}"), 5);
  write({"of_2/0/x", "of_2/1/x"});
  EXPECT_EQ(count("of_{total}/{index}/x"), 2);
  write({"b/2+/0.2.2", "b/2+/1.2.2"});
  EXPECT_EQ(count("b/{total}+/{index}.{total}.2"), 2);
}

TEST_F(Pattern, TotalsThatDisagreeAreRefused) {
  write({"a/x_0_of_2", "a/x_1_of_2", "a/x_2_of_3"});
  EXPECT_THAT(making("a/x_{index}_of_{total}"),
              is_error(ErrorCode::invalid_argument, {"x_0_of_2", "x_2_of_3", "do not agree"}));
  EXPECT_EQ(Catalog::from_pattern(at("a/x_{index}_of_{total}"), {.files = 2}).size(), 2);
  EXPECT_THAT(making("a/y_{index}_of_{total}"), is_error(ErrorCode::not_found, {"none is in", at("a/")}));
}

TEST_F(Pattern, FolderThatIsShortByOneIsNoticed) {
  const Written data{.files = 12, .folders = 3, .layout = FolderLayout::restart};
  auto names = data.names();
  for (std::size_t gone = 0; gone < names.size(); ++gone) {
    const std::string below = fmt::format("{}/", gone);
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (i != gone) directory.write(below + names[i], "");
    }
    EXPECT_THAT(making(below + data.pattern(), {.files = 12}), is_error(ErrorCode::not_found, {"part-"}));
    EXPECT_THAT(making(below + data.pattern(),
                       {.files = 12, .first_index = 0, .first_folder = 0, .layout = data.layout}),
                is_error(ErrorCode::not_found, {names[gone], "1 are missing"}));
  }
}

TEST_F(Pattern, LayoutThatIsSaidIsTaken) {
  const Written data{.files = 12, .folders = 3, .layout = FolderLayout::blocks};
  write(data.names());
  EXPECT_THAT(making(data.pattern(), {.layout = FolderLayout::round_robin}),
              is_error(ErrorCode::invalid_argument, {"as blocks has them", "not as round_robin"}));
  EXPECT_EQ(Catalog::from_pattern(at(data.pattern()), {.layout = FolderLayout::blocks}).size(), 12);
}

TEST_F(Pattern, FilesThatLieInSeveralLayoutsAreRefused) {
  const Written blocks{.files = 12, .folders = 3, .layout = FolderLayout::blocks};
  const Written round{.files = 12, .folders = 3};
  write(blocks.names());
  write(round.names());
  EXPECT_THAT(making(blocks.pattern(), {.files = 12}),
              is_error(ErrorCode::invalid_argument,
                       {"round_robin", "just as well as blocks", "PatternOptions::layout"}));
}

TEST_F(Pattern, NumbersThatContradictThePatternAreRefused) {
  write_images(0, 4);
  const auto refused = [](const std::string& word) { return is_error(ErrorCode::invalid_argument, {word}); };
  EXPECT_THAT(making("img_{index}.x", {.folders = 2}), refused("no {folder}"));
  EXPECT_THAT(making("img_{index}.x", {.layout = FolderLayout::blocks}), refused("no {folder}"));
  EXPECT_THAT(making("img_{index}.x", {.files = -1}), refused("files is -1"));
  EXPECT_THAT(making("img_{index}.x", {.confidence = 1.5}), refused("confidence is 1.5"));
  EXPECT_THAT(making("img_{index}.x", {.missing_fraction = 0}), refused("missing_fraction is 0"));
  EXPECT_THAT(making("img_{index}.x", {.files = 2, .first_index = 3}),
              is_error(ErrorCode::not_found, {at("img_4.x"), "1 are missing"}));
  EXPECT_THAT(making("pic_{index}.x"), is_error(ErrorCode::not_found, {"pic_0.x, pic_1.x"}));
}

TEST(CountUp, FindsHowManyThereAreByFewQuestions) {
  for (std::int64_t n = 0; n < 500; ++n) {
    std::int64_t asked = 0;
    const auto found = count_up([&](std::int64_t i) {
      ++asked;
      return i < n;
    });
    ASSERT_EQ(found, n);
    ASSERT_LE(asked, 20);
  }
  constexpr std::int64_t kVeryMany = 987'654'321'012'345;
  EXPECT_EQ(count_up([&](std::int64_t i) { return i < kVeryMany; }), kVeryMany);
}

}  // namespace
}  // namespace rota::test
