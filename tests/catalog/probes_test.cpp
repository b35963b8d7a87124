// Whether a generated series is found out where it is not what is there: on a disk that is made up, so that
// it may hold very many files.

#include "catalog/name_pattern.hpp"
#include "source/reading.hpp"

namespace rota::test::probes_test {

TEST(StratifiedSample, IsAsLargeAsItsPromiseTakes) {
  for (const std::int64_t items : {1, 2, 3, 100, 2995, 2996, 2997, 2998, 2999, 3000, 2'000'003}) {
    const auto sample = stratified_sample(items);
    ASSERT_THAT(sample, SizeIs(std::min<std::int64_t>(items, 2995 + 2)));
    ASSERT_EQ(sample.front(), 0);
    ASSERT_EQ(sample.back(), items - 1);
    for (std::size_t i = 1; i < sample.size(); ++i) ASSERT_LT(sample[i - 1], sample[i]);
  }
  EXPECT_THAT(stratified_sample(std::int64_t{1} << 40), SizeIs(2995 + 2));
}

// The most items one behind the other that none of the sample is among.
std::int64_t longest_gap(const Numbers& sample) {
  std::int64_t longest = 0;
  for (std::size_t i = 1; i < sample.size(); ++i) longest = std::max(longest, sample[i] - sample[i - 1] - 1);
  return longest;
}

TEST(StratifiedSample, MeetsEveryContiguousHoleOfTwoPartsForCertain) {
  std::mt19937_64 random(20261122);
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t items =
        i < 500 ? 2500 + 10 * i : static_cast<std::int64_t>(random() >> (24 + random() % 30)) + 1;
    const std::int64_t hole = 2 * (items / 2995 + 1);
    ASSERT_LT(longest_gap(stratified_sample(items)), hole) << items;
  }
}

// In how many of 1000 cases, each with files missing elsewhere, the sample has one of them.
int times_noticed(std::int64_t files, const std::function<bool(std::int64_t)>& is_gone) {
  const auto sample = stratified_sample(files);
  std::mt19937_64 random(20261123);
  int noticed = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto by = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(files));
    noticed += std::ranges::any_of(sample, [&](auto k) { return is_gone((k + by) % files); }) ? 1 : 0;
  }
  return noticed;
}

TEST(StratifiedSample, NoticesOneMissingFileInAThousandWithThePromisedProbabilityHoweverTheyLie) {
  constexpr std::int64_t kFiles = 1'000'000;
  // Of 1000 times 0.95, less three standard deviations.
  EXPECT_GE(times_noticed(kFiles, [](auto i) { return i % 1000 == 0; }), 930);
  EXPECT_GE(times_noticed(kFiles, [](auto i) { return i * 7919 % kFiles < kFiles / 1000; }), 930);
  EXPECT_GE(times_noticed(kFiles,
                          [](auto i) {
                            return (static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15U >> 40U) % 1000 == 0;
                          }),
            930);
  EXPECT_GE(times_noticed(kFiles, [](auto i) { return i < kFiles / 1000; }), 930);
  EXPECT_EQ(times_noticed(kFiles, [](auto i) { return i < kFiles / 1400; }), 1000);
}

/// Files that are there: those of a series, apart from holes; and what is there besides.
struct Disk {
  NameSeries series;
  std::function<bool(std::int64_t)> is_gone = [](std::int64_t) { return false; };
  std::optional<std::int64_t> gone_folder = {};
  std::set<std::string> others = {};

  bool has_folder(std::int64_t folder) const {
    return folder >= 0 && folder < series.folders && folder != gone_folder;
  }
  bool has_file(std::int64_t folder, std::int64_t index) const {
    std::int64_t i = index;
    if (series.layout == FolderLayout::restart) {
      const std::int64_t in_folder = series.files / series.folders;
      if (i < 0 || i >= in_folder) return false;
      i += folder * in_folder;
    }
    return i >= 0 && i < series.files && series.folder_of(i) == folder && !is_gone(i);
  }
  int ask(const Probe& probe) const {
    const auto [first_index, first_folder] = numbers_in(series.pattern.name({}));
    const auto [index, folder] = numbers_in(probe.name);
    const bool is_there = probe.is_directory ? has_folder(folder - first_folder)
                                             : has_folder(folder - first_folder) &&
                                                   has_file(folder - first_folder, index - first_index);
    return is_there || others.contains(probe.name) ? 0 : ENOENT;
  }
  // Of names such as "f7/x_12", "f7" or "x_12": index and folder.
  static std::pair<std::int64_t, std::int64_t> numbers_in(const std::string& name) {
    const std::size_t x = name.find("x_");
    return {x == std::string::npos ? 0 : std::stoll(name.substr(x + 2)),
            x == 0 ? 0 : std::stoll(name.substr(1))};
  }
};

/// What from_pattern throws for this series over that disk.
std::optional<Error> finding(const Disk& disk, const NameSeries& given) {
  static const OpenContext context(Communicator(), {.listing_threads = 1});
  return error_of([&] {
    validate_files(context, given, "/no/where/", 1, [&](const Probe& probe) { return disk.ask(probe); });
  });
}

NamePattern pattern_of(bool has_folders, std::int64_t first_folder, std::int64_t first_index) {
  return NamePattern((has_folders ? fmt::format("f{{folder+{}}}/", first_folder) : "") +
                     fmt::format("x_{{index+{}}}", first_index));
}

/// Series of all layouts, sizes and numbers of folders.
std::vector<NameSeries> all_series() {
  std::vector<NameSeries> all;
  for (const std::int64_t files : {1, 2, 3, 12, 200, 203, 997, 2996, 2998, 10'000, 99'991, 1'000'000}) {
    for (const std::int64_t first : {0, 1, 5}) {
      all.push_back({.pattern = pattern_of(false, 0, first), .files = files});
    }
    for (const std::int64_t folders : {1, 2, 7, 100, 1000}) {
      for (const auto layout : {FolderLayout::round_robin, FolderLayout::blocks, FolderLayout::restart}) {
        const std::int64_t kept = layout == FolderLayout::restart ? files - files % folders : files;
        if (kept < folders) continue;
        all.push_back({.pattern = pattern_of(true, files % 2, folders % 2),
                       .files = kept,
                       .folders = folders,
                       .layout = layout});
      }
    }
  }
  return all;
}

std::string to_text(const NameSeries& series) {
  return fmt::format("{}: {} files, {} folders, {}", series.pattern.text(), series.files, series.folders,
                     to_string(series.layout));
}

TEST(Probes, AskBesideEachFolderHoweverManyThereAre) {
  const NameSeries series{.pattern = pattern_of(true, 0, 0),
                          .files = 999'999'999'989,
                          .folders = 4'000'001,
                          .layout = FolderLayout::blocks};
  int beside = 0;
  for (const Probe& probe : make_probes(series)) {
    const auto [index, folder] = Disk::numbers_in(probe.name);
    const bool is_beside = !probe.is_directory && probe.is_surplus;
    if (!is_beside || folder == 0 || folder == series.folders - 1) continue;
    const bool is_behind = series.folder_of(index) == folder + 1;
    ASSERT_EQ(series.folder_of(index), is_behind ? folder + 1 : folder - 1);
    ASSERT_EQ(series.folder_of(is_behind ? index - 1 : index + 1), folder);
    ++beside;
  }
  EXPECT_EQ(beside, 2 * 2995);
}

TEST(Probes, FindNothingWrongWithWhatIsThere) {
  for (const NameSeries& series : all_series()) {
    const auto error = finding({.series = series}, series);
    EXPECT_EQ(error, std::nullopt) << to_text(series) << error->what();
  }
}

TEST(Probes, FindHolesAtTheEndsAndOfOnePercentAndMore) {
  std::mt19937_64 random(20261122);
  for (const NameSeries& series : all_series()) {
    const std::int64_t n = series.files;
    const std::int64_t percent = (n + 99) / 100;
    const auto from = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n - percent + 1));
    const auto expect_found = [&](std::string_view hole, const std::function<bool(std::int64_t)>& is_gone) {
      EXPECT_THAT(finding({.series = series, .is_gone = is_gone}, series), is_error(not_found))
          << hole << " " << to_text(series);
    };
    expect_found("first", [](auto i) { return i == 0; });
    expect_found("last", [&](auto i) { return i == n - 1; });
    expect_found("tail", [&](auto i) { return i >= n / 2; });
    expect_found("percent", [&](auto i) { return i >= from && i < from + percent; });
    for (const std::int64_t k : {1, 2, 3, 8, 100}) {
      if (k <= n) expect_found("every k-th", [&](auto i) { return i % k == k - 1; });
    }
  }
}

TEST(Probes, FindEveryHoleWhereThereAreFewFiles) {
  for (const NameSeries& series : all_series()) {
    if (series.files > 2997) continue;
    for (std::int64_t gone = 0; gone < series.files; gone += 1 + series.files / 7) {
      EXPECT_THAT(finding({.series = series, .is_gone = [&](auto i) { return i == gone; }}, series),
                  is_error(not_found, {series.name(gone)}))
          << to_text(series);
    }
  }
}

TEST(Probes, FindEveryFolderThatIsGoneOrTooMany) {
  for (const NameSeries& series : all_series()) {
    if (!series.pattern.has(&NameNumbers::folder)) continue;
    const std::int64_t last = series.folders - 1;
    for (const std::int64_t folder : {std::int64_t{0}, last / 2, last}) {
      EXPECT_THAT(finding({.series = series, .gone_folder = folder}, series),
                  is_error(not_found, {"what is missing"}))
          << folder << " of " << to_text(series);
    }
    for (const std::int64_t folder : {std::int64_t{-1}, last + 1, last + 3}) {
      const std::string name = series.pattern.through(&NameNumbers::folder).name({.folder = folder});
      if (name.empty()) continue;
      EXPECT_THAT(finding({.series = series, .others = {name}}, series),
                  is_error(invalid_argument, {name + " (one too many)", "more files"}))
          << folder << " of " << to_text(series);
    }
  }
}

/// The indices of the files in a folder, ascending.
Numbers indices_in(const NameSeries& series, std::int64_t folder) {
  Numbers indices;
  for (std::int64_t i = 0; i < series.files; ++i) {
    if (series.folder_of(i) == folder) indices.push_back(i % series.indices());
  }
  return indices;
}

TEST(Probes, FindFilesBesideThoseOfAnyFolder) {
  for (const NameSeries& series : all_series()) {
    if (series.files > 10'000) continue;  // the naive list takes its time
    const std::int64_t step = series.layout == FolderLayout::round_robin ? series.folders : 1;
    for (const std::int64_t folder : {std::int64_t{0}, series.folders / 2, series.folders - 1}) {
      const auto own = indices_in(series, folder);
      for (const std::int64_t index : {own.front() - step, own.back() + step}) {
        const std::string name = series.pattern.name({.index = index, .folder = folder});
        if (name.empty()) continue;
        EXPECT_THAT(finding({.series = series, .others = {name}}, series),
                    is_error(invalid_argument, {name + " (one too many)", "more files"}))
            << to_text(series);
      }
    }
  }
}

bool have_same_names(const NameSeries& a, const NameSeries& b) {
  if (a.files != b.files) return false;
  for (std::int64_t i = 0; i < a.files; ++i) {
    if (a.name(i) != b.name(i)) return false;
  }
  return true;
}

// The heart of it: whatever is wrong with what is said, and whatever is missing in addition.
TEST(Probes, NeverLetASeriesOfFewerFilesPass) {
  std::mt19937_64 random(20261123);
  const auto any = [&](std::int64_t from, std::int64_t to) {
    return std::uniform_int_distribution<std::int64_t>(from, to)(random);
  };
  for (const NameSeries& series : all_series()) {
    for (int i = 0; i < 6; ++i) {
      NameSeries given = series;
      given.files = series.files - any(0, i < 3 ? 3 : series.files);
      if (any(0, 3) == 0) given.folders = any(1, series.folders + 1);
      const bool has_folders = series.pattern.has(&NameNumbers::folder);
      if (any(0, 3) == 0) given.pattern = pattern_of(has_folders, any(0, 2), any(0, 2));
      if (any(0, 3) == 0) given.layout = static_cast<FolderLayout>(any(0, 2));
      if (!has_folders) given.folders = 1;
      if (given.layout == FolderLayout::restart) given.files -= given.files % given.folders;
      if (given.files < 1 || have_same_names(given, series)) continue;
      const std::int64_t gap = given.files + any(0, given.files);  // right behind those that are said
      const Disk disk{.series = series, .is_gone = [&](auto k) { return k >= given.files && k < gap; }};
      EXPECT_NE(finding({.series = series}, given), std::nullopt)
          << to_text(given) << " for " << to_text(series);
      if (given.layout != series.layout || gap >= series.files / 2) continue;
      EXPECT_NE(finding(disk, given), std::nullopt)
          << to_text(given) << " for " << to_text(series) << " up to " << gap;
    }
  }
}

}  // namespace rota::test::probes_test
