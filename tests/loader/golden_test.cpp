// States of loaders of all kinds, saved by two ranks of the first version of the code, are gone on with for
// ever.

#include "loader/course.hpp"
#include "loader/golden_run.hpp"

namespace rota::test::golden_test {

class Golden : public Test {
 protected:
  /// What the ranks had read before they saved.
  Numbers read_before(const std::string& name) const {
    return checkpoint_.read<std::int64_t>("read/" + name);
  }
  static void go_to_the_end(Loader& loader, Numbers& ids) {
    std::ranges::copy(rest_of(loader), std::back_inserter(ids));
  }
  static void go_to_the_end(StreamLoader& loader, Numbers& ids) {
    while (const auto batch = loader.next()) {
      for (const StreamId& id : batch->stream_ids()) ids.push_back(1000 * id.shard.value + id.input);
    }
  }
  /// The numbers from 0 up to `count`, as often as `times`.
  static Numbers all(std::int64_t count, int times = 1) {
    Numbers ids;
    for (std::int64_t id = 0; id < count; ++id) ids.insert(ids.end(), static_cast<std::size_t>(times), id);
    return ids;
  }

  Checkpoint checkpoint_ = open_checkpoint(ROTA_TESTS "/loader/golden/states-v1.h5");
};

TEST_F(Golden, LoadersGoOnAndSeeEverySampleOnce) {
  Loader loader = golden_loader();
  restore(loader, checkpoint_, "loader");
  EXPECT_EQ(loader.position(), (Position{.epoch = 0, .consumed = 40, .step = 5}));
  auto ids = read_before("loader");
  go_to_the_end(loader, ids);
  EXPECT_THAT(ids, UnorderedElementsAreArray(all(kGoldenSamples)));
  EXPECT_EQ(loader.skipped().count, 1 + (kGoldenSamples - 1) / kGoldenBad);
  EXPECT_THAT(loader.skipped().samples, SizeIs(loader.skipped().count));
}

TEST_F(Golden, MixturesGoOnWithTheWeightsThatTheyHad) {
  Loader loader = golden_mixture();
  restore(loader, checkpoint_, "mixture");
  EXPECT_EQ(*loader.mixture(), (MixtureState{.weights = {1, 1}, .changed_at = 24, .counts = {17, 7}}));
  auto ids = read_before("mixture");
  go_to_the_end(loader, ids);
  // It is over with the first dataset, as a whole.
  std::erase_if(ids, [](std::int64_t id) { return id >= kGoldenSamples; });
  EXPECT_THAT(ids, UnorderedElementsAreArray(all(kGoldenSamples)));
}

TEST_F(Golden, StreamsGoOnAndSeeEverySampleOnce) {
  StreamLoader loader = golden_stream();
  restore(loader, checkpoint_, "stream");
  EXPECT_EQ(loader.position(), (Position{.epoch = 0, .consumed = 0, .step = 5}));
  auto ids = read_before("stream");
  go_to_the_end(loader, ids);
  Numbers expected;
  std::int64_t shard = 0;
  for (const std::int64_t length : {20, 21, 0, 3, 40, 9, 33}) {
    for (std::int64_t i = 0; i < length; ++i) expected.push_back(1000 * shard + i);
    ++shard;
  }
  EXPECT_THAT(ids, UnorderedElementsAreArray(expected));
}

TEST_F(Golden, DispatchesGoOnWithWhatWasReadAhead) {
  EXPECT_GE(checkpoint_.tensor("loader/dispatch/pending").rows(), 12);
  StreamLoader loader = golden_dispatch();
  restore(loader, checkpoint_, "dispatch");
  auto ids = read_before("dispatch");
  go_to_the_end(loader, ids);
  for (std::int64_t& id : ids) id = id % 1000 * kGoldenShards + id / 1000;
  EXPECT_THAT(ids, UnorderedElementsAreArray(all(kGoldenItems, 2)));
}

}  // namespace rota::test::golden_test
