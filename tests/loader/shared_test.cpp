// Loaders over files that the ranks of a node share: once fetched, as long as needed, and no longer.

#include <zstd.h>

#include "catalog/files.hpp"
#include "formats/formats.hpp"
#include "loader/ranks.hpp"
#include "source/read_plan.hpp"
#include "test.hpp"

namespace rota::test::shared_test {

constexpr int kFiles = 24;

/// Line i of all, of a length of its own.
std::string shared_line(std::int64_t i) {
  return fmt::format("{} {}", i, std::string(static_cast<std::size_t>(i * 37 % 90), 'x'));
}

/// Lines `first` and later, 20 to 59 of them, compressed.
std::string file_of_lines(int file, std::int64_t& first) {
  std::string raw;
  for (int k = 0; k < 20 + file * 17 % 40; ++k) raw += shared_line(first++) + "\n";
  std::string packed(ZSTD_compressBound(raw.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), raw.data(), raw.size(), 1));
  return packed;
}

bool is_line(const Batch& batch, std::int64_t i, std::int64_t line) {
  return text_of(batch.bytes(0, i)) == shared_line(line);
}

bool says_who_it_is(const Batch& batch) {
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (batch.kinds()[at] != SlotKind::skipped && !is_line(batch, i, batch.ids()[at].value)) return false;
  }
  return true;
}

/// Files in memory that this process has mapped. The kernel lists them in parts, and what is unmapped and
/// mapped meanwhile may be in two of these: so the least of some lists counts.
std::int64_t mapped_files() {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < 3; ++i) {
    std::int64_t count = 0;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      count += line.find("/memfd:rota-file") == std::string::npos ? 0 : 1;
    }
    least = std::min(least, count);
  }
  return least;
}

/// Files of compressed lines that say which they are, opened as if ranks were on several nodes.
class Shared : public Test {
 protected:
  Shared() {
    std::int64_t line = 0;
    for (int i = 0; i < kFiles && is_root(); ++i) {
      std::ofstream(directory_.path() / fmt::format("{:03}.jsonl.zst", i), std::ios::binary)
          << file_of_lines(i, line);
    }
    meet();
  }

  /// **Collective.** As opened by ranks that are where `where` says.
  std::shared_ptr<const Source> open(int ranks_per_node = 0, const CatalogOptions& options = {}) const {
    auto context = std::make_shared<OpenContext>(everyone(), options);
    context->nodes = ranks::Nodes(everyone().duplicate(), ranks_per_node);
    return make_lines_source({context, ChangeDetection::by_size, [&](const NameVisitor& visit) {
                                return list_path(directory_.path(), options, false, visit);
                              }});
  }
  /// With no room for files that are not needed.
  std::shared_ptr<const Source> open_tight() const { return open(0, {.shared_memory_limit = 0}); }
  static std::int64_t sum(std::int64_t value) {
    everyone().sum(std::span(&value, 1));
    return value;
  }
  static void meet() { ranks::agree(everyone(), "meet", nullptr); }
  // How many nodes there are, where so many ranks in a row are one.
  static int nodes(int ranks_per_node) {
    return ranks_per_node == 0 ? 1 : (everyone().size() + ranks_per_node - 1) / ranks_per_node;
  }
  // Returns how many files this rank has had in memory, at most, in each step; 0 without a `bound`.
  static std::int64_t run(Loader& loader, std::optional<std::int64_t> bound = {}) {
    bool is_right = true;
    std::int64_t most = 0;
    while (const auto batch = loader.next()) {
      is_right = is_right && says_who_it_is(*batch);
      if (!bound) continue;
      most = std::max(most, files_left(std::max(*bound, most)));
      meet();
      most = std::max(most, files_left(std::max(*bound, most)));
    }
    EXPECT_TRUE(is_right);
    meet();
    return most;
  }

  // Files in memory, once this rank's thread has let go what is dropped: at most `bound`, or too many for
  // ever.
  static std::int64_t files_left(std::int64_t bound) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    std::int64_t files = mapped_files();
    while (files > bound && std::chrono::steady_clock::now() < until) {
      std::this_thread::yield();
      files = mapped_files();
    }
    return files;
  }

  // How many files all ranks fetch in a run that begins with none.
  std::int64_t fetched_in_run(int ranks_per_node, const LoaderOptions& options) {
    Loader loader(open(ranks_per_node), options, everyone().world());
    run(loader);
    return sum(loader.stats().fetched_files);
  }

  SharedDirectory directory_;
};

/// Options of all kinds, the same on every rank, with whole files in each shard.
LoaderOptions whole_files(std::mt19937_64& random) {
  return {.global_batch_size = draw(random, 1, 100),
          .shards = draw(random, 0, 1) == 0 ? kFiles : draw(random, 1, kFiles),
          .interleave = draw(random, 1, 8),
          .shuffle = draw(random, 0, 1) == 0 ? Shuffle::none : Shuffle::within,
          .seed = random(),
          .tail = draw(random, 0, 1) == 0 ? Tail::partial : Tail::carry,
          .workers = static_cast<int>(draw(random, 0, 3)),
          .read_ahead_batches = draw(random, 1, 6)};
}

TEST_F(Shared, FilesAreFetchedOncePerNodeAndEpoch) {
  std::mt19937_64 random(1);
  for (const int ranks_per_node : {0, 1, 2}) {
    for (int i = 0; i < 8; ++i) {
      // A node may have none of a file's samples.
      const std::int64_t fetched = fetched_in_run(ranks_per_node, whole_files(random));
      EXPECT_GE(fetched, kFiles) << i;
      EXPECT_LE(fetched, kFiles * nodes(ranks_per_node)) << i;
    }
  }
}

// Groups of shards are parts of files then, in any order.
TEST_F(Shared, FilesThatAreReadInPartsAreFetchedOnceToo) {
  for (const Split split : {Split::by_sample, Split::by_shard}) {
    Loader loader(open(),
                  {.global_batch_size = 10,
                   .shards = 5 * kFiles,
                   .interleave = 2,
                   .shuffle = Shuffle::within,
                   .rank_split = split},
                  everyone().world());
    run(loader);
    EXPECT_EQ(sum(loader.stats().fetched_files), kFiles);
  }
}

TEST_F(Shared, FilesAreThereStillInALaterEpochWhereThereIsRoom) {
  const LoaderOptions options{
      .global_batch_size = 20, .shards = kFiles, .interleave = 4, .shuffle = Shuffle::none, .epochs = 3};
  EXPECT_EQ(fetched_in_run(0, options), kFiles);
  Loader loader(open_tight(), options, everyone().world());
  run(loader);
  EXPECT_GE(sum(loader.stats().fetched_files), 3 * kFiles);
}

TEST_F(Shared, RanksWithShardsOfTheirOwnFetchNoOthers) {
  std::mt19937_64 random(2);
  for (const int ranks_per_node : {0, 1, 2}) {
    for (int i = 0; i < 4; ++i) {
      LoaderOptions options = whole_files(random);
      options.rank_split = Split::by_shard;
      EXPECT_EQ(fetched_in_run(ranks_per_node, options), kFiles) << i;
    }
  }
}

// That which is read, and the next.
TEST_F(Shared, NoMoreThanTwoGroupsAreInMemory) {
  if (are_threads()) GTEST_SKIP() << "counts the files of a process";
  constexpr std::int64_t kGroup = 3;
  for (const int workers : {0, 2}) {
    const auto source = open_tight();
    Loader loader(source,
                  {.global_batch_size = 30,
                   .shards = kFiles,
                   .interleave = kGroup,
                   .shuffle = Shuffle::within,
                   .epochs = 2,
                   .workers = workers,
                   .read_ahead_batches = 3},
                  everyone().world());
    // A rank that is a step ahead may have begun the next group while another is still in the one before.
    const std::int64_t bound = (everyone().size() == 1 ? 2 : 3) * kGroup + 1;
    const std::int64_t most = run(loader, bound);
    EXPECT_LE(most, bound);
    EXPECT_GT(most, 0);
  }
}

TEST_F(Shared, AFileThatOneRankHoldsAgainStaysForTheOthers) {
  const auto source = open();
  if (everyone().rank() == 0 && everyone().size() > 1) {
    const auto plan = PlannedSource::plan_of(*source);
    for (int i = 0; i < everyone().size() + 1; ++i) {
      const auto hold = plan->bring({.begin = 0, .end = 20}, true);
      Samples(*source, ids({0}));
    }
    EXPECT_EQ(plan->counts().files, 1);
  }
  meet();
}

TEST_F(Shared, NothingStaysWhenLoadersHaveEnded) {
  const auto source = open_tight();
  for (int steps = 0; steps < 40; steps += 7) {
    Loader loader(source,
                  {.global_batch_size = 20, .shards = kFiles, .interleave = 3, .shuffle = Shuffle::within},
                  everyone().world());
    for (int i = 0; i < steps; ++i) (void)loader.next();
  }
  meet();
  EXPECT_EQ(files_left(0), 0);
}

TEST_F(Shared, ARunGoesOnAnywhereInAnyWorld) {
  std::mt19937_64 random(4);
  const auto source = open(2, {.shared_memory_limit = 1 << 14});
  Loader loader(source, whole_files(random), everyone().world());
  for (int move = 0; move < 20; ++move) {
    bool is_right = true;
    for (auto steps = random() % 20; steps > 0; --steps) {
      if (const auto batch = loader.next()) is_right = is_right && says_who_it_is(*batch);
    }
    EXPECT_TRUE(is_right);
    if (move % 3 == 0) loader.seek({.consumed = static_cast<std::int64_t>(random() % 500)});
    if (move % 3 == 1) loader.rescale({.rank = everyone().rank() % 3, .size = 3});
    if (move % 3 == 2) loader.set_global_batch_size(static_cast<std::int64_t>(1 + random() % 40));
  }
  run(loader);
}

TEST_F(Shared, PaddingMayGoThroughAllFilesMoreThanOnce) {
  const auto source = open();
  Loader loader(source,
                {.global_batch_size = 3 * source->size() + 7,
                 .shards = kFiles,
                 .interleave = 2,
                 .shuffle = Shuffle::within,
                 .tail = Tail::pad,
                 .epochs = 2,
                 .workers = 2},
                everyone().world());
  run(loader);
  EXPECT_EQ(loader.position().step, 2);
  EXPECT_GE(sum(loader.stats().fetched_files), kFiles);
}

TEST_F(Shared, DatasetsThatAreMixedAreHeldEachByItsGroups) {
  const auto shared = open();
  Loader loader(Mixture{.datasets = {{.source = shared, .weight = 2}, {.source = shared, .weight = 1}}},
                {.global_batch_size = 16, .shards = kFiles, .interleave = 2, .shuffle = Shuffle::within},
                everyone().world());
  bool is_right = true;
  while (const auto batch = loader.next()) {
    for (std::int64_t i = 0; i < batch->size(); ++i) {
      const std::int64_t id = batch->ids()[static_cast<std::size_t>(i)].value;
      is_right = is_right && is_line(*batch, i, id % shared->size());
    }
  }
  EXPECT_TRUE(is_right);
  EXPECT_GT(sum(loader.stats().fetched_files), 0);
}

TEST_F(Shared, APartOfADatasetAndOneBesideAnotherAreHeldByTheirGroups) {
  const auto shared = open();
  const auto part = skip_first(take(shared, shared->size() - 9), 30);
  Loader loader(zip({part, told(part->size())}),
                {.global_batch_size = 16, .shards = kFiles / 2, .interleave = 2, .shuffle = Shuffle::within},
                everyone().world());
  bool is_right = true;
  while (const auto batch = loader.next()) {
    for (std::int64_t i = 0; i < batch->size(); ++i)
      is_right = is_right && is_line(*batch, i, batch->ids()[static_cast<std::size_t>(i)].value + 30);
  }
  EXPECT_TRUE(is_right);
  EXPECT_GT(sum(loader.stats().fetched_files), 0);
}

TEST_F(Shared, OrdersThatNeedAllFilesAtAllTimesAreRefused) {
  const auto source = open();
  const World world = everyone().world();
  for (const Shuffle shuffle : {Shuffle::global, Shuffle::block}) {
    EXPECT_ERROR(Loader(source, {.interleave = 4, .shuffle = shuffle}, world), invalid_argument,
                 {"all of them at all times", "interleave > 0"});
  }
  for (const Shuffle shuffle : {Shuffle::none, Shuffle::within}) {
    EXPECT_ERROR(Loader(source, {.interleave = 0, .shuffle = shuffle}, world), invalid_argument,
                 {"interleave 0", "all of them at all times"});
  }
}

TEST_F(Shared, SamplesThatLieAllOverTheFilesAreRefused) {
  const LoaderOptions options{.interleave = 1, .shuffle = Shuffle::none};
  const std::array fractions = {0.5, 0.5};
  const auto source = open();
  const auto chosen = select(source, {{5}, {0}});
  for (const auto& all_over : {split(source, fractions, 1)[0], chosen, pack(source, {.length = 64})}) {
    const std::vector<std::string> words{"shared in memory", "split", "unpack the files"};
    EXPECT_ERROR(Loader(all_over, options, everyone().world()), unsupported, words);
    const Mixture mixture{.datasets = {{.source = all_over, .weight = 1}}};
    EXPECT_ERROR(Loader(mixture, options, everyone().world()), unsupported, words);
  }
}

TEST_F(Shared, AFileThatIsDamagedIsAnErrorOfItsBatchAndOfNoOther) {
  const auto source = open_tight();
  const fs::path damaged = directory_.path() / "005.jsonl.zst";
  meet();
  if (everyone().rank() == 0) {
    std::fstream(damaged, std::ios::binary | std::ios::in | std::ios::out) << std::string(20, 'x');
  }
  meet();
  Loader loader(source,
                {.global_batch_size = 8,
                 .shards = kFiles,
                 .interleave = 1,
                 .shuffle = Shuffle::none,
                 .bad_samples = {.policy = BadSamples::Policy::skip, .max_skipped = 1000}},
                everyone().world());
  run(loader);
  EXPECT_EQ(sum(loader.stats().skipped), 20 + 5 * 17 % 40);
}

}  // namespace rota::test::shared_test
