// Whether a generated series is found out where it is not what is there: on a disk that is made up, so that
// it may hold very many files.

#include "catalog/probes.hpp"
#include "source/reading.hpp"
#include "test.hpp"

namespace rota::test::probes_test {

constexpr PatternOptions kDefaults;
constexpr PatternOptions kFewest{.confidence = 0};

std::int64_t sample_size(std::int64_t files, double confidence, double missing_fraction) {
  return StratifiedSample(files, {.confidence = confidence, .missing_fraction = missing_fraction}).size();
}

TEST(StratifiedSample, IsAsLargeAsConfidenceTakesAndNeverSmall) {
  EXPECT_EQ(sample_size(1'000'000, 0.95, 0.001), 2995 + 2);
  EXPECT_EQ(sample_size(1'000'000, 0.99, 0.01), 459 + 2);
  EXPECT_EQ(sample_size(1'000'000'000'000'000'000, 0.95, 0.001), 2995 + 2);
  EXPECT_EQ(sample_size(1'000'000, 0, 0.001), 200 + 2);
  EXPECT_EQ(sample_size(1000, 0.95, 0.001), 1000);
  EXPECT_EQ(sample_size(1'000'000, 1, 0.001), 1'000'000);
  EXPECT_EQ(sample_size(7, 0.95, 1e-300), 7);
}

TEST(StratifiedSample, HoldsBothEndsAndNothingTwice) {
  for (const std::int64_t items : {1, 2, 3, 100, 201, 202, 203, 204, 1000, 2'000'003}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const StratifiedSample sample(items, {.confidence = 0.1, .seed = seed});
      ASSERT_EQ(sample.size(), std::min<std::int64_t>(items, 202));
      ASSERT_EQ(sample[0], 0);
      ASSERT_EQ(sample[sample.size() - 1], items - 1);
      for (std::int64_t i = 1; i < sample.size(); ++i) ASSERT_LT(sample[i - 1], sample[i]);
    }
  }
}

TEST(StratifiedSample, IsAnotherForAnotherSeed) {
  EXPECT_NE(StratifiedSample(1'000'000, {.seed = 1})[7], StratifiedSample(1'000'000, {.seed = 2})[7]);
}

// The most items one behind the other that none of the sample is among.
std::int64_t longest_gap(const StratifiedSample& sample) {
  std::int64_t longest = 0;
  for (std::int64_t i = 1; i < sample.size(); ++i) {
    longest = std::max(longest, sample[i] - sample[i - 1] - 1);
  }
  return longest;
}

TEST(StratifiedSample, MeetsEveryContiguousHoleOfOnePercentForCertain) {
  std::mt19937_64 random(20261122);
  for (int i = 0; i < 5000; ++i) {
    const std::int64_t items =
        i < 2500 ? i + 1 : static_cast<std::int64_t>(random() >> (4 + random() % 50)) + 1;
    const std::int64_t hole = items / 100 + (items % 100 > 0 ? 1 : 0);
    const std::uint64_t seed = random();
    ASSERT_LT(longest_gap({items, {.confidence = 0, .seed = seed}}), hole) << items << " " << seed;
  }
}

// In how many of 1000 samples there is one of those that are missing.
int times_noticed(std::int64_t files, double missing_fraction,
                  const std::function<bool(std::int64_t)>& is_gone) {
  int noticed = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const StratifiedSample sample(files, {.missing_fraction = missing_fraction, .seed = seed});
    bool is_noticed = false;
    for (std::int64_t i = 0; i < sample.size() && !is_noticed; ++i) is_noticed = is_gone(sample[i]);
    noticed += is_noticed ? 1 : 0;
  }
  return noticed;
}

TEST(StratifiedSample, NoticesHolesWithThePromisedProbabilityHoweverTheyLie) {
  constexpr std::int64_t kFiles = 60'000;
  for (const std::int64_t k : {100, 150, 300, 1000}) {
    const double fraction = 1.0 / static_cast<double>(k);
    const StratifiedSample other(kFiles, {.seed = 77});
    // Of 1000 times 0.95, less three standard deviations.
    EXPECT_GE(times_noticed(kFiles, fraction, [&](auto i) { return i % k == k / 2; }), 930) << k;
    EXPECT_GE(times_noticed(kFiles, fraction, [&](auto i) { return (i * 7919) % kFiles < kFiles / k; }), 930);
    EXPECT_EQ(times_noticed(kFiles, fraction, [&](auto i) { return i > 100 && i <= 100 + kFiles / k; }),
              1000);
  }
}

/// Files that are there: those of a series, apart from holes; and what is there besides.
struct Disk {
  NameSeries series;
  std::function<bool(std::int64_t)> is_gone = [](std::int64_t) { return false; };
  std::optional<std::int64_t> gone_folder = {};
  std::set<std::string> others = {};

  [[nodiscard]] bool has_folder(std::int64_t folder) const {
    const std::int64_t i = folder - series.first_folder;
    return i >= 0 && i < series.folders && folder != gone_folder;
  }
  [[nodiscard]] bool has_file(std::int64_t folder, std::int64_t index) const {
    std::int64_t i = index - series.first_index;
    if (series.layout == FolderLayout::restart) {
      const std::int64_t in_folder = series.files / series.folders;
      if (i < 0 || i >= in_folder) return false;
      i += (folder - series.first_folder) * in_folder;
    }
    return i >= 0 && i < series.files && series.numbers(i).folder == folder && !is_gone(i);
  }
  // Of names such as "f7/x_12", or "x_12".
  [[nodiscard]] int look(const std::string& name, NameKind kind) const {
    const bool has_folders = series.pattern.has(NameField::folder);
    const std::int64_t folder = has_folders ? std::stoll(name.substr(1)) : series.first_folder;
    bool is_there = others.contains(name);
    if (kind == NameKind::directory) {
      is_there = is_there || has_folder(folder);
    } else if (!is_there && (!has_folders || has_folder(folder))) {
      is_there = has_file(folder, std::stoll(name.substr(name.find('_') + 1)));
    }
    return is_there ? 0 : ENOENT;
  }
};

/// What from_pattern throws for this series over that disk.
std::optional<Error> finding(const Disk& disk, const NameSeries& given,
                             const PatternOptions& options = kDefaults) {
  static const OpenContext context(mpi::Communicator(), {.listing_threads = 1});
  return error_of([&] {
    validate_files(
        context, Probes(given, options),
        [&](const std::string& name, NameKind kind) { return disk.look(name, kind); }, "/no/where/");
  });
}

/// Series of all layouts, sizes and numbers of folders.
std::vector<NameSeries> all_series() {
  std::vector<NameSeries> all;
  for (const std::int64_t files : {1, 2, 3, 12, 200, 203, 997, 2996, 2998, 10'000, 99'991, 1'000'000}) {
    for (const std::int64_t first : {0, 1, 5}) {
      all.push_back({.pattern = NamePattern::parse("x_{index}"), .files = files, .first_index = first});
    }
    for (const std::int64_t folders : {1, 2, 7, 100, 1000}) {
      for (const auto layout : {FolderLayout::round_robin, FolderLayout::blocks, FolderLayout::restart}) {
        const std::int64_t kept = layout == FolderLayout::restart ? files - files % folders : files;
        if (kept < folders) continue;
        all.push_back({.pattern = NamePattern::parse("f{folder}/x_{index}"),
                       .files = kept,
                       .first_index = folders % 2,
                       .folders = folders,
                       .first_folder = files % 2,
                       .layout = layout});
      }
    }
  }
  return all;
}

std::string to_text(const NameSeries& series) {
  return fmt::format("{}: {} files from {}, {} folders from {}, {}", series.pattern.text(), series.files,
                     series.first_index, series.folders, series.first_folder, to_string(series.layout));
}

TEST(Probes, AskBesideEachFolderHoweverManyThereAre) {
  const NameSeries series{.pattern = NamePattern::parse("f{folder}/x_{index}"),
                          .files = 999'999'999'999'999'989,
                          .folders = 7'000'000'001,
                          .layout = FolderLayout::blocks};
  const Probes probes(series, kFewest);
  int beside = 0;
  for (std::int64_t i = 0; i < probes.size(); ++i) {
    const auto [index, folder, total] = probes[i].numbers;
    const bool is_file = probes[i].kind == NameKind::file && folder > 0 && folder < series.folders - 1;
    if (!is_file) continue;
    const bool is_behind = series.numbers(index).folder == folder + 1;
    ASSERT_EQ(series.numbers(index).folder, is_behind ? folder + 1 : folder - 1);
    ASSERT_EQ(series.numbers(is_behind ? index - 1 : index + 1).folder, folder);
    ++beside;
  }
  EXPECT_EQ(beside, 400);
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
                  is_error(not_found, {"1 are missing", series.name(gone)}))
          << to_text(series);
    }
  }
}

TEST(Probes, FindEveryFolderThatIsGoneOrTooMany) {
  for (const NameSeries& series : all_series()) {
    if (!series.pattern.has(NameField::folder)) continue;
    const std::int64_t last = series.first_folder + series.folders - 1;
    for (const std::int64_t folder : {series.first_folder, (series.first_folder + last) / 2, last}) {
      EXPECT_THAT(finding({.series = series, .gone_folder = folder}, series),
                  is_error(not_found, {"missing"}))
          << folder << " of " << to_text(series);
    }
    for (const std::int64_t folder : {series.first_folder - 1, last + 1, last + 3}) {
      if (folder < 0) continue;
      EXPECT_THAT(finding({.series = series, .others = {fmt::format("f{}", folder)}}, series),
                  is_error(invalid_argument, {"a folder too many", "more files"}))
          << folder << " of " << to_text(series);
    }
  }
}

/// The indices of the files in a folder, ascending.
std::vector<std::int64_t> indices_in(const NameSeries& series, std::int64_t folder) {
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < series.files; ++i) {
    const NameNumbers numbers = series.numbers(i);
    if (numbers.folder == series.first_folder + folder) indices.push_back(numbers.index);
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
        if (index < 0) continue;
        const std::string name =
            series.pattern.name({.index = index, .folder = series.first_folder + folder});
        EXPECT_THAT(finding({.series = series, .others = {name}}, series),
                    is_error(invalid_argument, {"are too many", name, "one too many", "more files"}))
            << to_text(series);
      }
    }
  }
}

bool have_same_names(const NameSeries& a, const NameSeries& b) {
  if (a.files != b.files) return false;
  const bool has_folders = a.pattern.has(NameField::folder);
  for (std::int64_t i = 0; i < a.files; ++i) {
    const NameNumbers one = a.numbers(i);
    const NameNumbers other = b.numbers(i);
    if (one.index != other.index || (has_folders && one.folder != other.folder)) return false;
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
      if (any(0, 3) == 0) given.first_index = any(0, 2);
      if (any(0, 3) == 0) given.first_folder = any(0, 2);
      if (any(0, 3) == 0) given.layout = static_cast<FolderLayout>(any(0, 2));
      if (!series.pattern.has(NameField::folder)) given.folders = 1;
      if (given.layout == FolderLayout::restart) given.files -= given.files % given.folders;
      if (given.files < 1 || have_same_names(given, series)) continue;
      const std::int64_t gap = given.files + any(0, given.files);  // right behind those that are said
      const Disk disk{.series = series, .is_gone = [&](auto k) { return k >= given.files && k < gap; }};
      EXPECT_NE(finding({.series = series}, given, kFewest), std::nullopt)
          << to_text(given) << " for " << to_text(series);
      if (given.layout != series.layout || gap >= series.files / 2) continue;
      EXPECT_NE(finding(disk, given, kFewest), std::nullopt)
          << to_text(given) << " for " << to_text(series) << " up to " << gap;
    }
  }
}

}  // namespace rota::test::probes_test
