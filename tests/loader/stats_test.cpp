// What a loader tells of its time: percentiles, what next() waited for, and where bytes came from.

#include "files/descriptor.hpp"
#include "formats/memory_storage.hpp"
#include "loader/course.hpp"
#include "loader/statistics.hpp"

namespace rota::test::stats_test {

constexpr double kShare = 1.0 / 16;  // within which a length is kept

TEST(Durations, HaveTheQuantilesOfWhatWasAddedWithinASixteenth) {
  std::mt19937_64 random(7);
  std::vector<double> added;
  Durations durations;
  for (int i = 0; i < 20'001; ++i) {
    added.push_back(std::exp(std::uniform_real_distribution(std::log(2e-6), std::log(1000.0))(random)));
    durations.add(added.back());
  }
  EXPECT_EQ(durations.count(), std::ssize(added));
  EXPECT_NEAR(durations.seconds(), std::accumulate(added.begin(), added.end(), 0.0), 1e-6);
  std::ranges::sort(added);
  for (const double share : {0.0, 0.001, 0.25, 0.5, 0.99, 0.999, 1.0}) {
    const double exact = added[static_cast<std::size_t>(std::max(std::ceil(share * 20'001) - 1, 0.0))];
    EXPECT_NEAR(durations.quantile(share) / exact, 1, kShare) << share;
  }
}

// Neither compiles with a member more, or one less.
TEST(Statistics, AreInTheTableEachOnce) {
  const auto [batches, samples, skipped, bytes, waits, steps, slowest, ready_batches, retries, disk_bytes,
              fetched_files, fetched_bytes, decodes, chunks, open, oldest_open, given_up, dropped, workers,
              datasets] = LoaderStats();
  const auto [read_samples, read_bytes, stored_bytes, reads, transforms] = LoaderStats::Worker();
  const auto [name, dataset_samples, epochs, tokens] = LoaderStats::Dataset();
  EXPECT_TRUE(workers.empty() && datasets.empty() && name.empty() && slowest.slowest.empty() &&
              reads.count() == 0);
  std::set<std::pair<std::string_view, std::string_view>> names;
  for (const internal::Statistic& one : internal::kStatistics) names.emplace(one.name, one.label());
  EXPECT_EQ(names.size(), 20 - 3 + 5 + 4 - 1);
  EXPECT_EQ(std::size(internal::kStatistics), names.size());
}

TEST(Durations, KeepEachLengthThereIs) {
  EXPECT_EQ(Durations().quantile(0.5), 0);
  for (const double seconds : {0.0, 1e-9, 1e-7, 3e-6, 0.1, 2000.0}) {
    Durations one;
    one.add(seconds);
    for (const double share : {0.0, 0.5, 1.0}) {
      EXPECT_NEAR(one.quantile(share), seconds, seconds * kShare + 7e-8) << seconds;
    }
  }
  for (const double odd : {-1.0, 1e9, std::numeric_limits<double>::infinity()}) {
    Durations one;
    one.add(odd);
    EXPECT_NEAR(one.quantile(1), odd < 0 ? 0 : 2147, 100) << odd;
  }
}

TEST(Statistics, SayWhatTheRunHasHadOfEachDataset) {
  Mixture mixture{.datasets = {{counting(10), 3, "web"}, {counting(100), 1, "code"}},
                  .end = MixtureEnd::all_exhausted};
  LoaderOptions options{.global_batch_size = 8, .workers = 0};
  options.plan.tokens_per_sample = {2.5, 4};
  options.plan.skip = {{1, 2}};
  Loader loader(mixture, options, {.rank = 1, .size = 2});
  for (int steps = 0; steps < 4; ++steps) ASSERT_TRUE(loader.next());
  const auto had = loader.stats().datasets;
  EXPECT_EQ(std::tie(had[0].name, had[0].samples, had[0].epochs, had[0].tokens),
            std::tuple("web", 30, 3, 75));
  EXPECT_EQ(std::tie(had[1].name, had[1].samples, had[1].epochs, had[1].tokens),
            std::tuple("code", 10, 0, 40));
  Loader alone(counting(10), {.global_batch_size = 8, .epochs = 2}, {});
  for (int steps = 0; steps < 3; ++steps) ASSERT_TRUE(alone.next());
  EXPECT_EQ(alone.stats().datasets[0].samples, 18);
}

LoaderOptions in_order(int workers) {
  return {.global_batch_size = 10, .shards = 1, .shuffle = Shuffle::none, .workers = workers};
}

class LoaderTimes : public TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Workers, LoaderTimes, Values(0, 2));

TEST_P(LoaderTimes, TellReadsTransformsAndTheLoopApart) {
  const auto source = counting(100);
  source->on_read = [](SampleId) { std::this_thread::sleep_for(100us); };
  LoaderOptions options = in_order(GetParam());
  options.transform = {.apply =
                           [](const TransformContext&, const SampleView&, SampleOutput& out) {
                             std::this_thread::sleep_for(300us);
                             out.bytes(0)[0] = std::byte{1};
                           },
                       .fields = {{.name = "y", .dtype = DType::uint8}}};
  Loader loader(source, options);
  while (const NextBatch batch = loader.next()) {
    EXPECT_GE(batch->times().read_seconds, 100e-6 * (GetParam() == 0 ? 10 : 5));
    EXPECT_GE(batch->times().transform_seconds, 300e-6 * (GetParam() == 0 ? 10 : 5));
    if (GetParam() == 0) EXPECT_GE(batch->times().wait_seconds, 4e-3) << "the caller made it";
    std::this_thread::sleep_for(2ms);
  }
  const LoaderStats stats = loader.stats();
  EXPECT_EQ(stats.waits.count(), 11) << "the last one found the end";
  EXPECT_EQ(stats.steps.count(), 10);
  EXPECT_GE(stats.steps.quantile(0), 2e-3 * (1 - kShare));
  double reads = 0;
  double transforms = 0;
  for (const LoaderStats::Worker& worker : stats.workers) {
    EXPECT_EQ(worker.reads.count(), 10);
    EXPECT_EQ(worker.transforms.count(), 10);
    reads += worker.reads.seconds();
    transforms += worker.transforms.seconds();
  }
  EXPECT_GE(reads, 100 * 100e-6);
  EXPECT_GE(transforms, 100 * 300e-6);
}

TEST_P(LoaderTimes, CountNoTransformsWhereThereAreNone) {
  Loader loader(counting(100), in_order(GetParam()));
  run_out(loader);
  for (const LoaderStats::Worker& worker : loader.stats().workers) EXPECT_EQ(worker.transforms.count(), 0);
}

TEST_P(LoaderTimes, CountCollateAsATransform) {
  LoaderOptions options = in_order(GetParam());
  options.collate = {.apply = [](const Batch&, BatchOutput&) { std::this_thread::sleep_for(3ms); },
                     .fields = {{.name = "y", .dtype = DType::uint8}}};
  Loader loader(counting(100), options);
  while (const NextBatch batch = loader.next()) EXPECT_GE(batch->times().transform_seconds, 3e-3);
}

// The loop takes no part in what failed.
TEST_P(LoaderTimes, BeginAnewBehindAnError) {
  const auto source = counting(30);
  source->io_failures = {{15, 2}};
  LoaderOptions options = in_order(GetParam());
  options.bad_samples.io_retries = 0;
  Loader loader(source, options);
  EXPECT_TRUE(loader.next());
  EXPECT_ERROR((void)loader.next(), io, {});
  EXPECT_TRUE(loader.next());
  EXPECT_EQ(loader.stats().steps.count(), 1);
}

TEST_P(LoaderTimes, NameTheSampleThatWasWaitedFor) {
  const auto source = counting(40);
  source->place = "place-";
  source->on_read = [](SampleId id) { std::this_thread::sleep_for(id.value == 25 ? 300ms : 0ms); };
  Loader loader(source, in_order(GetParam()));
  std::vector<std::string> slow;
  while (const NextBatch batch = loader.next()) {
    if (batch->times().slowest_seconds >= 0.3) slow.push_back(batch->times().slowest);
  }
  const std::string first = GetParam() == 0 ? "place-20" : "place-25";  // of the part that has it
  EXPECT_THAT(slow, Contains(first));
  EXPECT_EQ(loader.stats().slowest.slowest, first);
}

TEST_P(LoaderTimes, LeaveAGoodBatchWhereNobodyKnowsWhereItIs) {
  struct Nowhere : SourceAdaptor {
    using SourceAdaptor::SourceAdaptor;
    std::unique_ptr<const Source> wrap(std::shared_ptr<const Source> inner) const override {
      return std::make_unique<Nowhere>(std::move(inner));
    }
    std::string where(SampleId /*id*/) const override { throw std::runtime_error("nowhere"); }
  };
  const auto source = counting(40);
  source->on_read = [](SampleId id) { std::this_thread::sleep_for(id.value == 25 ? 5ms : 0ms); };
  Loader loader(std::make_shared<Nowhere>(source), in_order(GetParam()));
  for (int batch = 0; batch < 4; ++batch) EXPECT_TRUE(loader.next());
  EXPECT_FALSE(loader.next());
}

TEST(Loader, ForgetsWhatWasSlowLongAgo) {
  const auto source = counting(4000);
  source->place = "place-";
  source->on_read = [](SampleId id) {
    std::this_thread::sleep_for(id.value == 25 ? 300ms : id.value == 985 ? 100ms : 0ms);
  };
  Loader loader(source, in_order(1));
  for (int k = 0; k < 100; ++k) ASSERT_TRUE(loader.next());
  EXPECT_GE(loader.stats().slowest.slowest_seconds, 0.3);
  ASSERT_TRUE(loader.next());
  EXPECT_GE(loader.stats().slowest.slowest_seconds, 0.1) << "the one of the last fifty";
  EXPECT_NE(loader.stats().slowest.slowest, "place-25");
}

/// With these files of tokens.
struct Tokens : TemporaryDirectory {
  Tokens(int files, const std::string& bytes) {
    for (int file = 0; file < files; ++file) write(fmt::format("part-{}.tokens", file), bytes);
  }
};

TEST_P(LoaderTimes, NameTheFileOfAStorageThatWasWaitedFor) {
  const auto storage = std::make_shared<MemoryStorage>();
  storage->copy(Tokens(4, std::string(10'240, 'x')).path(), "bucket");
  const Catalog catalog("memory://bucket", {.storages = {{"memory", storage}}});
  const auto source = open(catalog, TokensOptions{.dtype = DType::uint32, .length = 256});
  storage->on_read = [](const StoredBytes& wanted) {
    if (wanted.file->name.ends_with("part-2.tokens")) std::this_thread::sleep_for(30ms);
  };
  Loader loader(source, in_order(GetParam()));
  run_out(loader);
  EXPECT_THAT(loader.stats().slowest.slowest, EndsWith("bucket/part-2.tokens"));
  std::int64_t stored = 0;
  for (const LoaderStats::Worker& worker : loader.stats().workers) stored += worker.stored_bytes;
  EXPECT_EQ(stored, 4 * 10'240);
}

// Whatever else the page cache had of them.
TEST(Loader, CountsWhatCameFromADisk) {
  constexpr std::size_t kBytes = 8 << 20;
  const Tokens directory(1, std::string(kBytes, 'x'));
  const Descriptor file(::open((directory.path() / "part-0.tokens").c_str(), O_RDONLY | O_DIRECT));
  if (file.get() < 0) GTEST_SKIP() << "no disk is below this directory";
  (void)::fdatasync(file.get());
  const Catalog catalog(directory.path(), {.access = Access::direct});
  Loader loader(open(catalog, TokensOptions{.dtype = DType::uint32, .length = 1024}),
                {.global_batch_size = 64});
  run_out(loader);
  EXPECT_GE(loader.stats().disk_bytes, static_cast<std::int64_t>(kBytes));
  EXPECT_EQ(loader.stats().workers[0].stored_bytes, 0);
}

}  // namespace rota::test::stats_test
