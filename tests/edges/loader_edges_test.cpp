#include "edges/edge.hpp"
#include "source/told_source.hpp"
#include "test.hpp"

namespace rota::test::loader_edges_test {

using std::chrono::milliseconds;

constexpr auto kInvalid = ErrorCode::invalid_argument;
constexpr auto kRange = ErrorCode::out_of_range;
constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

/// Reads all of 20 samples with these options.
Edge option(std::string test, LoaderOptions options, std::string says = {}, bool is_right = false) {
  const auto call = [options = std::move(options)] {
    options.validate();
    Loader loader(counting(20), options);
    std::int64_t seen = 0;
    for (const rota::Batch& batch : loader) seen += batch.real();
    EXPECT_EQ(seen, 20);
  };
  return {"Option" + std::move(test), call, is_right ? std::nullopt : std::optional(kInvalid),
          std::move(says)};
}

Edge fine(std::string test, LoaderOptions options) {
  return option(std::move(test), std::move(options), {}, true);
}

std::vector<Edge> options() {
  return {
      fine("Default", {}),
      option("BatchOfNone", {.global_batch_size = 0}, "global_batch_size"),
      option("BatchNegative", {.global_batch_size = -1}, "global_batch_size"),
      fine("BatchOfOne", {.global_batch_size = 1}),
      fine("BatchBeyondTheDataset", {.global_batch_size = 1000}),
      option("BatchHuge", {.global_batch_size = std::int64_t{1} << 40}, "global_batch_size"),
      option("NoShards", {.shards = 0}, "shards"),
      option("ShardsNegative", {.shards = -1}, "shards"),
      fine("OneShard", {.shards = 1}),
      fine("MoreShardsThanSamples", {.shards = 1000}),
      option("ShardsHuge", {.shards = kHuge}, "shards"),
      option("InterleaveNegative", {.interleave = -1}, "interleave"),
      fine("InterleaveOfOne", {.interleave = 1}),
      fine("InterleaveHuge", {.interleave = kHuge}),
      option("ShuffleUnknown", {.shuffle = static_cast<Shuffle>(99)}, "shuffle"),
      option("TailUnknown", {.tail = static_cast<rota::Tail>(99)}, "tail"),
      option("RankSplitUnknown", {.rank_split = static_cast<rota::Split>(99)}, "rank_split"),
      option("WorkerSplitUnknown", {.worker_split = static_cast<rota::Split>(99)}, "worker_split"),
      fine("SeedHuge", {.seed = std::numeric_limits<std::uint64_t>::max()}),
      option("BlockOfNone", {.shuffle = Shuffle::block, .block = {0, 1}}, "block"),
      option("WindowOfNoBlocks", {.shuffle = Shuffle::block, .block = {1, 0}}, "block"),
      fine("BlockHuge", {.shuffle = Shuffle::block, .block = {kHuge, kHuge}}),
      option("EpochsNegative", {.epochs = -1}, "epochs"),
      option("WorkersNegative", {.workers = -1}, "workers"),
      fine("NoWorkers", {.workers = 0}),
      fine("MoreWorkersThanSamples", {.workers = 50}),
      option("WorkersHuge", {.workers = 1 << 30}, "workers"),
      option("NoReadAhead", {.read_ahead_batches = 0}, "read_ahead_batches"),
      option("ReadAheadHuge", {.read_ahead_batches = kHuge}, "read_ahead_batches"),
      fine("ReadAheadOfNoBytes", {.read_ahead_bytes = 0}),
      fine("ReadAheadOfOneByte", {.read_ahead_bytes = 1}),
      fine("ReadAheadOfHugeBytes", {.read_ahead_bytes = kHuge}),
      option("BadSamplesUnknown", {.bad_samples = {.policy = static_cast<rota::OnBadSample>(9)}}, "policy"),
      option("SkippedNegative", {.bad_samples = {.max_skipped = -1}}, "max_skipped"),
      option("RetriesNegative", {.bad_samples = {.io_retries = -1}}, "io_retries"),
      option("RetriesTooMany", {.bad_samples = {.io_retries = 101}}, "io_retries"),
      option("RetryWaitNegative", {.bad_samples = {.retry_wait = milliseconds(-1)}}, "retry_wait"),
      option("RetryWaitHuge", {.bad_samples = {.retry_wait = milliseconds::max()}}, "retry_wait"),
      option("AllocatorWithoutRelease",
             {.allocator = {.allocate = [](std::size_t) -> void* { return nullptr; }}}, "allocator"),
      option("AllocatorWithoutAllocate", {.allocator = {.release = [](void*, std::size_t) {}}}, "allocator"),
      option("TransformFieldsWithoutFunction", {.transform = {.fields = {{.name = "x"}}}}, "transform"),
  };
}

using OnLoader = std::function<void(Loader&)>;
Edge on_loader(std::string test, OnLoader call, std::optional<ErrorCode> code = {}, std::string says = {}) {
  const auto make_and_call = [call = std::move(call)] {
    Loader loader(counting(20), {.global_batch_size = 8, .shards = 4, .epochs = 2});
    call(loader);
  };
  return {std::move(test), make_and_call, code, std::move(says)};
}

std::int64_t batches(Loader& loader) {
  std::int64_t count = 0;
  while (loader.next()) ++count;
  return count;
}

Edge seek(std::string test, rota::Position to, std::optional<ErrorCode> code = kRange,
          std::string says = {}) {
  return on_loader(
      "Seek" + std::move(test),
      [to](Loader& loader) {
        loader.seek(to);
        EXPECT_EQ(loader.position(), to);
        batches(loader);
      },
      code, std::move(says));
}

std::vector<Edge> calls() {
  return {
      seek("ToTheBeginning", {}, {}),
      seek("ToTheMiddle", {1, 8, 4}, {}),
      seek("ToTheEnd", {2, 0, 6}, {}),
      seek("BeyondTheEnd", {99, 0, 6}, {}),
      seek("ToANegativeEpoch", {-1, 0, 0}, kRange, "epoch -1"),
      seek("ToANegativePlace", {0, -1, 0}, kRange, "sample -1"),
      seek("PastTheEpoch", {0, 21, 0}, kRange, "sample 21"),
      seek("ToANegativeStep", {0, 0, -1}, kRange, "step -1"),
      seek("ToTheLastStepOfAll", {0, 0, kHuge}, kRange, "step"),
      seek("ToTheLastEpochOfAll", {kHuge, 0, 0}, kRange, "epoch"),
      on_loader(
          "FirstIdOfADatasetThatIsNotThere", [](auto& loader) { std::ignore = loader.first_id(1); }, kRange,
          "dataset 1:"),
      on_loader(
          "FirstIdOfADatasetBelowZero", [](auto& loader) { std::ignore = loader.first_id(-1); }, kRange,
          "dataset -1:"),
      on_loader(
          "WhenOfASampleThatIsNotThere", [](auto& loader) { std::ignore = loader.when({20}, 0); }, kRange,
          "sample 20 in"),
      on_loader(
          "WhenOfASampleBelowZero", [](auto& loader) { std::ignore = loader.when({-1}, 0); }, kRange,
          "sample -1 in"),
      on_loader(
          "WhenOfAnEpochBelowZero", [](auto& loader) { std::ignore = loader.when({0}, -1); }, kRange,
          "epoch -1"),
      on_loader("WhenOfAnEpochThatIsNotRead",
                [](auto& loader) { EXPECT_FALSE(loader.when({0}, 2).has_value()); }),
      on_loader("WhenOfTheLastEpochOfAll",
                [](auto& loader) { EXPECT_FALSE(loader.when({0}, std::int64_t{1} << 62).has_value()); }),
      on_loader("NextAfterTheEnd",
                [](auto& loader) {
                  EXPECT_EQ(batches(loader), 6);
                  EXPECT_FALSE(loader.next().has_value());
                }),
      on_loader("WarmUpTwice",
                [](auto& loader) {
                  loader.warm_up();
                  loader.warm_up();
                  EXPECT_EQ(batches(loader), 6);
                }),
      on_loader("WarmUpAfterTheEnd",
                [](auto& loader) {
                  batches(loader);
                  loader.warm_up();
                }),
      on_loader(
          "RescaleToNone",
          [](auto& loader) {
            loader.rescale({0, 0});
          },
          kInvalid, "rank 0 of 0"),
      on_loader(
          "RescaleToARankThatIsNotThere",
          [](auto& loader) {
            loader.rescale({2, 2});
          },
          kInvalid, "rank 2 of 2"),
      on_loader("RescaleToMoreRanksThanSamples",
                [](auto& loader) {
                  loader.rescale({999, 1000});
                  EXPECT_EQ(batches(loader), 6);
                }),
      on_loader("RescaleAfterTheEnd",
                [](auto& loader) {
                  batches(loader);
                  loader.rescale({1, 2});
                  EXPECT_EQ(batches(loader), 0);
                }),
      on_loader(
          "RescaleOfNobodyWhoCounts", [](auto& loader) { loader.rescale(rota::mpi::Communicator()); }, {},
          ""),
      on_loader(
          "BatchOfNone", [](auto& loader) { loader.set_global_batch_size(0); }, kInvalid,
          "global_batch_size is 0"),
      on_loader(
          "BatchNegative", [](auto& loader) { loader.set_global_batch_size(-8); }, kInvalid, "-8"),
      on_loader(
          "BatchHuge", [](auto& loader) { loader.set_global_batch_size(std::int64_t{1} << 40); }, kInvalid,
          "1099511627776"),
      on_loader(
          "WeightsWhereNothingIsMixed", [](auto& loader) { loader.set_weights(std::array{1.0}); }, kInvalid,
          "mixes none"),
      on_loader(
          "SeekOfAMixtureWhereNothingIsMixed",
          [](auto& loader) { loader.seek({}, {.weights = {1}, .counts = {0}}); }, kInvalid, "mixes none"),
      on_loader("CursorsOfNoShards", [](auto& loader) { loader.cursors(4, {}); }),
      on_loader(
          "CursorsPastTheLast",
          [](auto& loader) {
            std::array<std::int64_t, 4> out{};
            loader.cursors(3, out);
          },
          kRange, "from 3 on"),
      on_loader(
          "CursorsBelowTheFirst",
          [](auto& loader) {
            std::array<std::int64_t, 2> out{};
            loader.cursors(-1, out);
          },
          kRange, "from -1 on"),
      on_loader(
          "TensorOfNoName",
          [](auto& loader) {
            const auto b = loader.next();
            (void)b->tensor("");
          },
          ErrorCode::not_found, "it has \"x\""),
      on_loader(
          "TensorPastTheLast",
          [](auto& loader) {
            const auto b = loader.next();
            (void)b->tensor(2);
          },
          kRange, "field 2:"),
      on_loader("BatchesThatOutliveTheLoader",
                [](auto& loader) {
                  auto batch = loader.next();
                  loader = Loader(counting(1), {});
                  EXPECT_EQ(batch->size(), 8);
                }),
      {"SourceNull", [] { Loader(nullptr, {}); }, kInvalid, "source"},
      {"SourceOfNothing",
       [] {
         Loader loader(counting(0), {});
         EXPECT_EQ(batches(loader), 0);
       }},
      {"NoEpochs",
       [] {
         Loader loader(counting(20), {.epochs = 0});
         EXPECT_EQ(batches(loader), 0);
       }},
      {"LengthsThatDoNotAddUp",
       [] {
         Loader(counting(20, std::vector<std::int64_t>{7, 7}), {.shards = 2});
       },
       ErrorCode::callback, "have 14"},
      {"LengthsOfAnotherNumberOfShards",
       [] { Loader(counting(20, std::vector<std::int64_t>{20}), {.shards = 2}); }, ErrorCode::callback,
       "asked for 2"},
      {"LengthsNegative",
       [] {
         Loader(counting(20, std::vector<std::int64_t>{-1, 21}), {.shards = 2});
       },
       ErrorCode::callback, "one has -1"},
      {"MixtureOfNone", [] { Loader(rota::Mixture{}, {}); }, kInvalid, "1 to 4096"},
      {"MixtureOfNull",
       [] {
         Loader(rota::Mixture{.datasets = {{nullptr, 1}}}, {});
       },
       kInvalid, "number 0 is none"},
      {"MixtureOfAnEmptyOne",
       [] {
         Loader(rota::Mixture{.datasets = {{counting(0), 1}}}, {});
       },
       kInvalid, "no samples"},
      {"MixtureOfOneTwice",
       [] {
         const auto source = counting(3);
         Loader loader(rota::Mixture{.datasets = {{source, 1}, {source, 1}}}, {});
         EXPECT_GT(batches(loader), 0);
       }},
      {"MixtureForNoSteps",
       [] {
         Loader(rota::Mixture{.datasets = {{counting(3), 1}}, .end = rota::MixtureEnd::steps}, {});
       },
       kInvalid, "steps"},
      {"MixtureWithStepsThatItDoesNotEndBy",
       [] {
         Loader(rota::Mixture{.datasets = {{counting(3), 1}}, .steps = 5}, {});
       },
       kInvalid, "steps"},
  };
}

ROTA_EDGES(LoaderOptions, options);
ROTA_EDGES(Loader, calls);

}  // namespace rota::test::loader_edges_test
