// The promise through the real thing: worlds of every size that mpirun's ranks can form take turns, with a
// checkpoint on disk between them.

#include "loader/ranks.hpp"
#include "moved_from.hpp"

namespace rota::test::rescale_mpi_test {

class Worlds : public TestWithParam<std::string> {};

TEST_P(Worlds, OfRealRanksReadTheBatchesOfAnUnbrokenRun) {
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    std::mt19937_64 random(seed);  // the same on all ranks
    const Course course = random_course(GetParam(), random);
    auto turns = random_turns(random, everyone().size());
    turns.front().ranks = everyone().size();
    const SharedDirectory directory;
    const std::vector<Step> steps = through_ranks(course, turns, directory.path());
    if (is_root()) {
      EXPECT_EQ(steps, course.unbroken()) << "seed " << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Worlds, ValuesIn(kCourses), [](const auto& of) { return of.param; });

TEST(Resume, RanksThatShareAPlaceCannotBothSaveIt) {
  if (everyone().size() == 1) GTEST_SKIP() << "one rank has no others";
  const SharedDirectory directory;
  CheckpointDirectory checkpoints(everyone(), directory.path());
  const Loader alone(counting(100), {.shards = 4}, World{.rank = 0, .size = 1});
  EXPECT_THROW(checkpoints.save_all(0, alone), Error);
  EXPECT_FALSE(checkpoints.latest());
}

TEST(Resume, LoadersThatDifferBetweenRanksAreToldApart) {
  const auto source = counting(100);
  const auto make = [&](std::uint64_t seed) {
    const int rank = everyone().rank();
    return Loader(everyone(), source, {.seed = seed, .workers = rank % 2, .read_ahead_batches = 1 + rank});
  };
  EXPECT_EQ(make(3).world(), everyone().world());
  if (everyone().size() == 1) GTEST_SKIP() << "one rank has no others";
  EXPECT_ERROR(make(everyone().rank() == 1 ? 4 : 3), mismatch, {"rank 1: make loaders", "seed 3", "seed 4"});
}

/// Options of loaders, each of which makes another course.
std::vector<LoaderOptions> all_different() {
  const LoaderOptions plain{.global_batch_size = 10};
  std::vector<LoaderOptions> all(12, plain);
  all[0].global_batch_size = 11;
  all[1].shards = 7;
  all[2].interleave = 3;
  all[3].shuffle = Shuffle::within;
  all[4].tail = Tail::carry;
  all[5].rank_split = Split::interleaved;
  all[6].epochs = 2;
  all[7].bad_samples.policy = BadSamples::Policy::skip;
  all[8].shuffle = Shuffle::block;
  all[9] = all[8];
  all[9].block.samples = 7;
  all[10].evaluation = true;
  all[11].transform = {.apply = [](const auto&, const auto&, auto&) {}, .fields = {{.name = "other"}}};
  return all;
}

TEST(Resume, LoadersOfRanksThatDifferInOneOptionAreNotMade) {
  if (everyone().size() == 1) GTEST_SKIP() << "one rank has no others";
  const auto source = counting(100);
  const auto options = all_different();
  for (std::size_t i = 0; i < options.size(); ++i) {
    const LoaderOptions plain = i == 9 ? options[8] : LoaderOptions{.global_batch_size = 10};
    EXPECT_THROW(Loader(everyone(), source, is_root() ? options[i] : plain), Error) << i;
  }
  const auto parts = join({counting(30), counting(70)});
  EXPECT_THROW(Loader(everyone(), parts, {.shards = is_root() ? kFileShards : 2}), Error);
  const auto other = counting(is_root() ? 99 : 100);
  EXPECT_THROW(Loader(everyone(), other, {}), Error);
  const Mixture mixture{.datasets = {{source, is_root() ? 0.5 : 0.4}, {source, 0.6}}};
  EXPECT_THROW(Loader(everyone(), mixture, {}), Error);
}

TEST(Resume, LoadersOfWhichOneWasMovedAloneAreFoundAtTheNextForAndBehindTheNextChange) {
  if (everyone().size() == 1) GTEST_SKIP() << "one rank has no others";
  Loader loader(everyone(), counting(100), {.global_batch_size = 10});
  ASSERT_TRUE(loader.next());
  if (is_root()) loader.seek({.consumed = 50, .step = 5});
  const std::vector<std::string> words{"go on with loaders", "sample 50", "sample 10"};
  EXPECT_ERROR(loader.begin_for(), mismatch, words);
  loader.set_global_batch_size(20);
  EXPECT_ERROR(loader.next(), mismatch, words);
  if (is_root()) loader.seek({.consumed = 10, .step = 1});
  EXPECT_TRUE(loader.next());
}

/// A dataset that cannot say on the last rank which it is.
std::shared_ptr<const Source> unnamed() {
  const auto source = counting(100);
  if (everyone().rank() == everyone().size() - 1) {
    source->on_fingerprint = [](Fingerprint) -> Fingerprint { throw Error(io, "its list is gone"); };
  }
  return source;
}

TEST(Resume, LoadersOfWhichOneCannotSayWhatItReadsAreMadeOnNoRank) {
  EXPECT_ERROR(Loader(everyone(), unnamed(), {}), io, {"its list is gone"});
}

TEST(Resume, LoadersOfWhichOneWasMovedFromAreNotRescaledOnAnyRank) {
  Loader loader(counting(100), {}, everyone().world());
  std::optional<Loader> taken;
  if (is_last()) taken.emplace(std::move(loader));
  // NOLINTNEXTLINE(bugprone-use-after-move): what is tested
  expect_refused("a loader", {[&] { loader.rescale(everyone()); }});
}

}  // namespace rota::test::rescale_mpi_test
