#include "limits/refusals.hpp"
#include "limits/told_stream.hpp"

namespace rota::test::loader_calls_test {

std::int64_t batches(Loader& loader) {
  std::int64_t count = 0;
  while (loader.next()) ++count;
  return count;
}
std::int64_t batches(Loader&& loader) { return batches(loader); }

/// Six batches, of 20 samples in two epochs.
class LoaderCalls : public testing::Test {
 protected:
  Loader loader_{counting(20), {.global_batch_size = 8, .shards = 4, .epochs = 2}};
};

TEST_F(LoaderCalls, SeekToAnyPlaceThatThereIs) {
  for (const Position to : {Position{}, Position{1, 8, 4}, Position{2, 0, 6}, Position{99, 0, 6}}) {
    loader_.seek(to);
    EXPECT_EQ(loader_.position(), to);
    EXPECT_EQ(batches(loader_), std::max<std::int64_t>(6 - to.step, 0));
  }
}

TEST_F(LoaderCalls, NameTheSampleEpochOrDatasetThatIsNotThere) {
  refused(kRange, {"dataset 1:"}, [&] { loader_.first_id(1); });
  refused(kRange, {"dataset -1:"}, [&] { loader_.first_id(-1); });
  refused(kRange, {"sample 20 in"}, [&] { loader_.when({20}, 0); });
  refused(kRange, {"sample -1 in"}, [&] { loader_.when({-1}, 0); });
  refused(kRange, {"epoch -1"}, [&] { loader_.when({0}, -1); });
  EXPECT_FALSE(loader_.when({0}, 2).has_value());
  EXPECT_FALSE(loader_.when({0}, kTwo62).has_value());
  refused({"mixes none"}, [&] { loader_.set_weights(std::array{1.0}); });
  refused({"mixes none"}, [&] { loader_.seek({}, {.weights = {1}, .counts = {0}}); });
}

TEST_F(LoaderCalls, WarmUpAndAreAskedTwiceAndAfterTheEnd) {
  for (int time = 0; time < 2; ++time) loader_.warm_up();
  EXPECT_EQ(batches(loader_), 6);
  EXPECT_FALSE(loader_.next().has_value());
  loader_.warm_up();
  loader_.rescale({1, 2});
  EXPECT_EQ(batches(loader_), 0);
}

TEST_F(LoaderCalls, RescaleToAnyWorldThatCanBe) {
  refused({"rank 0 of 0"}, [&] { loader_.rescale({0, 0}); });
  refused({"rank 2 of 2"}, [&] { loader_.rescale({2, 2}); });
  loader_.rescale(Communicator());
  loader_.rescale({999, 1000});
  EXPECT_EQ(batches(loader_), 6);
}

TEST_F(LoaderCalls, OfABatchNameTheFieldThatIsNotThereAndOutliveTheLoader) {
  const auto batch = loader_.next();
  refused(kMissing, {"it has \"x\""}, [&] { batch->tensor(""); });
  refused(kRange, {"field 2:"}, [&] { batch->tensor(2); });
  loader_ = Loader(told(1), {});
  EXPECT_EQ(batch->size(), 8);
}

TEST(MakingALoader, RefusesNoSourceAndTakesAnEmptyOne) {
  const auto mix = [](std::vector<Mixture::Part> datasets) {
    return Loader(Mixture{.datasets = std::move(datasets)}, {});
  };
  refused({"source"}, [] { Loader(nullptr, {}); });
  EXPECT_EQ(batches(Loader(told(0), {})), 0);
  refused({"1 to 4096"}, [&] { mix({}); });
  refused({"number 0 is none"}, [&] { mix({{nullptr, 1}}); });
  refused({"no samples"}, [&] { mix({{told(0), 1}}); });
  const auto source = told(3);
  EXPECT_GT(batches(mix({{source, 1}, {source, 1}})), 0);
}

}  // namespace rota::test::loader_calls_test
