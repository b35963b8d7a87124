// Catalogs whose names are computed, against files that were made the naive way.

#include "catalog/files.hpp"
#include "catalog/name_pattern.hpp"
#include "source/reading.hpp"

namespace rota::test::pattern_test {

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

  std::string pattern() const {
    const auto field = [](std::string_view name, std::int64_t first, int digits) {
      return fmt::format("{{{}{}{}}}", name, first == 0 ? "" : fmt::format("+{}", first),
                         digits == 1 ? "" : fmt::format(":0{}", digits));
    };
    return (folders > 0 ? "part-" + field("folder", first_folder, folder_width) + "/" : "") + "img_" +
           field("index", first_index, width) +
           (total_width > 0 ? "_of_" + field("total", 0, total_width) : "") + ".h5";
  }
  std::string name(std::int64_t folder, std::int64_t index) const {
    return (folders > 0 ? fmt::format("part-{:0{}}/", first_folder + folder, folder_width) : "") +
           fmt::format("img_{:0{}}", first_index + index, width) +
           (total_width > 0 ? fmt::format("_of_{:0{}}", files, total_width) : "") + ".h5";
  }
  PatternOptions options() const { return {.files = files, .folders = folders, .layout = layout}; }
  // One file after the other.
  std::vector<std::string> names() const {
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

class Pattern : public Test {
 public:
  std::string at(std::string_view name) const { return (directory / name).string(); }
  void write(const std::vector<std::string>& names) const {
    for (const std::string& name : names) directory.write(name, name);
  }
  /// "img_7.x" and so on, but for those left out.
  void write_images(std::int64_t from, std::int64_t to) const {
    for (std::int64_t i = from; i < to; ++i) directory.write(fmt::format("img_{}.x", i), "");
  }
  Catalog make(std::string_view pattern, const PatternOptions& options = {}) const {
    return Catalog::from_pattern(at(pattern), options);
  }
  TemporaryDirectory directory;
};

Written any_dataset(std::mt19937_64& random) {
  const auto any = [&](std::int64_t from, std::int64_t to) {
    return std::uniform_int_distribution<std::int64_t>(from, to)(random);
  };
  Written data;
  data.folders = any(0, 3) == 0 ? 0 : any(1, 12);
  const std::int64_t in_folder = any(1, any(0, 1) == 0 ? 4 : 15);
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

TEST_F(Pattern, NamesAreThoseOfTheFiles) {
  std::mt19937_64 random(20261120);
  for (int i = 0; i < 60; ++i) {
    const Written data = any_dataset(random);
    const std::string below = fmt::format("{}", i);
    const auto names = data.names();
    for (const std::string& name : names) directory.write(fmt::format("{}/{}", below, name), "");
    SCOPED_TRACE(fmt::format("{}: {} files, {} folders, {}", data.pattern(), data.files, data.folders,
                             to_string(data.layout)));
    const std::string pattern = at(below + "/" + data.pattern());
    const Catalog made = Catalog::from_pattern(pattern, data.options());
    ASSERT_EQ(names_of(made), names);
    PatternOptions options = data.options();
    options.files = 0;
    if (data.total_width > 0) {
      ASSERT_EQ(Catalog::from_pattern(pattern, options).fingerprint(), made.fingerprint());
    } else {
      EXPECT_ERROR(make(below + "/" + data.pattern(), options), invalid_argument);
    }
    fs::remove_all(directory / below);
  }
}

TEST_F(Pattern, NumberOfFilesThatNothingSaysIsNotGuessed) {
  write_images(0, 20);
  EXPECT_ERROR(make("img_{index}.x"), invalid_argument,
               {at("img_{index}.x"), "the option files", "{total}", "list them by a Catalog", "fast"});
  EXPECT_ERROR(make(""), invalid_argument, {"0 fields {index}", "img_{index:08}.npz"});
}

TEST_F(Pattern, NumberOfFoldersIsNotGuessedButSeen) {
  write({"part-00/0.x", "part-01/1.x", "part-02/2.x"});
  EXPECT_ERROR(make("part-{folder:02}/{index}.x", {.files = 3}), invalid_argument,
               {"the option folders", "holds part-00 to part-02"});
  EXPECT_ERROR(make("part-{folder:02}/{index}.x", {.files = 2, .folders = 2}), invalid_argument,
               {at("part-02") + " (one too many)"});
  EXPECT_ERROR(make("part-{folder}/{index}.x", {.files = 3, .folders = 3}), not_found,
               {"part-0/", "holds part-00 to part-02"});
}

TEST_F(Pattern, WhatIsThereIsToldWhereItIsNotAsThePatternSays) {
  for (int i = 1; i <= 20; ++i) directory.write(fmt::format("img_{:04}.x", i), "");
  EXPECT_ERROR(make("img_{index}.x", {.files = 20}), not_found,
               {at("img_0.x") + " (No such file", "holds img_0001.x to img_0020.x"});
  EXPECT_ERROR(make("img_{index:04}.x", {.files = 20}), not_found,
               {"img_0000.x (No such file", "holds img_0001.x to img_0020.x"});
  EXPECT_ERROR(make("{index:02}_{index}", {.files = 20}), invalid_argument, {"2 fields"});
  EXPECT_ERROR(make("img_{index}.x/y/z", {.files = 20}), not_found, {at("") + " holds img_0001.x"});
  EXPECT_ERROR(make("pic_{index:04}.x", {.files = 20}), not_found, {"holds no such name, but img_0001.x"});
  EXPECT_ERROR(make("img_{index+1:04}.x", {.files = 19}), invalid_argument,
               {"img_0020.x (one too many)", "more files"});
  EXPECT_ERROR(make("img_{index+2:04}.x", {.files = 19}), invalid_argument,
               {"img_0001.x (one too many)", "more files"});
}

TEST_F(Pattern, FileThatIsMissingUnnoticedIsAnErrorWhenItIsRead) {
  constexpr std::int64_t kFiles = 6000;
  write_images(0, kFiles);
  std::int64_t gone = 0;
  for (const std::int64_t asked : stratified_sample(kFiles)) gone += asked == gone ? 1 : 0;
  fs::remove(directory / fmt::format("img_{}.x", gone));
  const Catalog catalog = make("img_{index}.x", {.files = kFiles});
  const auto source = open(catalog, "files");
  EXPECT_EQ(source->size(), kFiles);
  EXPECT_ERROR(Samples(*source, ids({gone})), io, {at(fmt::format("img_{}.x", gone))});
  EXPECT_EQ(Samples(*source, ids({gone + 1})).sample(0, 0), "");
}

TEST_F(Pattern, CatalogIsReadAsOneThatWasListed) {
  write({"img_1.x", "img_2.x", "img_3.x", "img_4.x"});
  const Catalog made = make("img_{index+1}.x", {.files = 4});
  const Catalog listed(directory.path());
  EXPECT_EQ(made.change_detection(), ChangeDetection::by_name);
  EXPECT_EQ(made.path(3), at("img_4.x"));
  EXPECT_EQ(made.origin(), at("img_{index+1}.x"));
  EXPECT_NE(made.fingerprint(),
            Catalog(directory.path(), {.change_detection = ChangeDetection::by_name}).fingerprint());
  const auto source = open(made, "files");
  EXPECT_EQ(Samples(*source, ids({2})).sample(0, 0), "img_3.x");
  const FileList sized = files_of(made).with_sizes();
  EXPECT_EQ(sized.bytes(3), 7);
  EXPECT_EQ(sized.fingerprint(), files_of(listed).fingerprint());
}

TEST_F(Pattern, GeneratedCatalogIsNotSaved) {
  write_images(0, 2);
  const Catalog catalog = make("img_{index}.x", {.files = 2});
  EXPECT_ERROR(catalog.save(directory / "saved"), unsupported, {"made of a pattern"});
  EXPECT_FALSE(fs::exists(directory / "saved"));
}

TEST_F(Pattern, FingerprintIsOfPatternAndNumbers) {
  write({"a/img_0.x", "a/img_1.x", "b/img_0.x", "b/img_1.x", "c/img_1.x", "c/img_2.x", "d/img_0.x"});
  const auto of = [&](const std::string& pattern, const PatternOptions& options) {
    return make(pattern, options).fingerprint();
  };
  EXPECT_EQ(of("a/img_{index}.x", {.files = 2}), of("b/img_{index}.x", {.files = 2}));
  EXPECT_NE(of("a/img_{index}.x", {.files = 2}), of("c/img_{index+1}.x", {.files = 2}));
  EXPECT_NE(of("a/img_{index}.x", {.files = 2}), of("d/img_{index}.x", {.files = 1}));
}

TEST_F(Pattern, TotalIsReadFromAnyName) {
  write({"a/x_3of5", "a/x_4of5", "a/x_0of5", "a/x_2of5", "a/x_1of5", "a/other", "a/x_5of05"});
  EXPECT_EQ(make("a/x_{index}of{total}").size(), 5);
  write({"of_2/0/x", "of_2/1/x"});
  EXPECT_EQ(make("of_{total}/{index}/x").size(), 2);
  write({"b/2+/0.2.2", "b/2+/1.2.2"});
  EXPECT_EQ(make("b/{total}+/{index}.{total}.2").size(), 2);
}

TEST_F(Pattern, TotalsThatDisagreeAreRefused) {
  write({"a/x_0_of_2", "a/x_1_of_2", "a/x_2_of_3"});
  EXPECT_ERROR(make("a/x_{index}_of_{total}"), invalid_argument, {"x_0_of_2", "x_2_of_3", "do not agree"});
  EXPECT_EQ(make("a/x_{index}_of_{total}", {.files = 2}).size(), 2);
  EXPECT_ERROR(make("a/y_{index}_of_{total}"), not_found,
               {"no name has it", at("a/") + " holds no such name, but x_0_of_2"});
}

TEST_F(Pattern, NumbersThatContradictThePatternAreRefused) {
  write_images(0, 4);
  EXPECT_ERROR(make("img_{index}.x", {.files = 4, .folders = 2}), invalid_argument,
               {"the option folders goes with a {folder}"});
  EXPECT_ERROR(make("img_{index}.x", {.files = 4, .layout = FolderLayout::blocks}), invalid_argument,
               {"the option folders goes with a {folder}"});
  EXPECT_ERROR(make("img_{index}.x", {.files = -1}), invalid_argument, {"files is -1"});
  EXPECT_ERROR(make("{folder}/{index}.x", {.files = 4, .folders = 3, .layout = FolderLayout::restart}),
               invalid_argument, {"4 files cannot be shared out alike to 3 folders"});
  EXPECT_ERROR(make("img_{index+3}.x", {.files = 2}), not_found, {at("img_4.x")});
}

}  // namespace rota::test::pattern_test
