// Several datasets in one loader: their shares, their epochs, and that a run of them goes on anywhere.

#include "loader/side_by_side.hpp"
#include "source/told_source.hpp"
#include "test.hpp"

namespace rota::test::mixture_test {

struct Seen {
  std::int32_t dataset;
  std::int64_t epoch;
  std::int64_t id;  // in its dataset
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 sees one in the defaulted operator
  friend auto operator<=>(const Seen&, const Seen&) = default;
};

struct Step {
  Position start;
  std::vector<Seen> seen;
  std::vector<SlotKind> kinds;
  friend bool operator==(const Step&, const Step&) = default;
};

void append(const Loader& loader, const Batch& batch, Step& step) {
  step.start = batch.start();
  const auto x = batch.tensor("x").as<std::int64_t>();
  for (std::size_t i = 0; i < batch.ids().size(); ++i) {
    const std::int32_t dataset = batch.datasets()[i];
    const std::int64_t id = batch.ids()[i].value - loader.first_id(dataset).value;
    EXPECT_EQ(x[2 * i], id);
    EXPECT_EQ(std::ssize(batch.bytes(1, static_cast<std::int64_t>(i))), id % 7);
    step.seen.push_back({dataset, batch.epochs()[i], id});
    step.kinds.push_back(batch.kinds()[i]);
  }
}

/// What all ranks get in a step; nothing at the end of the run.
std::optional<Step> step_of(test::SideBySide& ranks) {
  Step step;
  const bool is_there =
      ranks.step([&](const Loader& loader, const Batch& batch) { append(loader, batch, step); });
  return is_there ? std::optional(step) : std::nullopt;
}

Mixture mixture_of(const std::vector<std::int64_t>& sizes, const std::vector<double>& weights) {
  Mixture mixture;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    mixture.datasets.push_back({.source = counting(sizes[d]), .weight = weights[d]});
  }
  return mixture;
}

/// What a mixture of three goes through: batch sizes and weights change at fixed steps.
class Story {
 public:
  explicit Story(std::uint64_t seed) : random_(seed) {
    mixture_ = mixture_of({97, 240, 15}, {0.6, 0.3, 0.1});
    mixture_.end = seed % 2 == 0 ? MixtureEnd::all_exhausted : MixtureEnd::first_exhausted;
    options_ = {.global_batch_size = 16,
                .shards = 1 + static_cast<std::int64_t>(random_() % 20),
                .interleave = static_cast<std::int64_t>(random_() % 3),
                .shuffle = static_cast<Shuffle>(random_() % 4),
                .seed = seed,
                .tail = static_cast<Tail>(seed / 2 % 4),
                .epochs = 2};
  }
  [[nodiscard]] test::SideBySide ranks(int size, int workers) const {
    LoaderOptions options = options_;
    options.workers = workers;
    return {size, [&](World world) { return Loader(mixture_, options, world); }};
  }

  static void prepare(test::SideBySide& ranks) {
    const std::int64_t step = ranks.front().position().step;
    ranks.each([&](Loader& loader) {
      loader.set_global_batch_size(9 + step / 4 % 3 * 8);
      if (step == 11) loader.set_weights(std::vector<double>{1, 7, 2});
      if (step == 17) loader.set_weights(std::vector<double>{0.2, 0, 0.8});
      if (step == 21) loader.set_weights(std::vector<double>{0.5, 0.4, 0.1});
    });
  }
  [[nodiscard]] std::vector<Step> unbroken() const {
    test::SideBySide alone = ranks(1, 0);
    std::vector<Step> steps;
    for (prepare(alone); auto step = step_of(alone); prepare(alone)) steps.push_back(*step);
    return steps;
  }
  std::int64_t draw(std::int64_t most) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most));
  }

 private:
  std::mt19937_64 random_;
  Mixture mixture_;
  LoaderOptions options_;
};

TEST(Mixture, SeesEverySampleOfEachDatasetOncePerEpochOfItsOwn) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    std::map<Seen, int> times;
    std::map<std::int32_t, std::int64_t> counts;
    for (const Step& step : Story(seed).unbroken()) {
      for (std::size_t i = 0; i < step.seen.size(); ++i) {
        if (step.kinds[i] != SlotKind::sample) continue;
        ++times[step.seen[i]];
        ++counts[step.seen[i].dataset];
      }
    }
    const std::map<std::int32_t, std::int64_t> sizes{{0, 97}, {1, 240}, {2, 15}};
    for (const auto& [seen, count] : times) EXPECT_EQ(count, 1) << seen.dataset << ": " << seen.id;
    for (const auto& [dataset, count] : counts) {  // complete epochs have no gap
      const auto in_complete = std::ranges::count_if(times, [&, d = dataset, n = count](const auto& entry) {
        return entry.first.dataset == d && entry.first.epoch < n / sizes.at(d);
      });
      EXPECT_EQ(in_complete, count / sizes.at(dataset) * sizes.at(dataset)) << "dataset " << dataset;
    }
  }
}

TEST(Mixture, GoesOnInAnyWorldFromACheckpointAsIfItHadNeverStopped) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(seed);
    Story run(seed);
    const auto expected = run.unbroken();
    test::TemporaryDirectory directory;
    CheckpointDirectory checkpoints(mpi::Communicator(), directory.path());
    std::vector<Step> steps;
    bool is_over = false;
    for (std::size_t leg = 0; !is_over && leg < 200; ++leg) {
      const int size = std::vector<int>{8, 7, 13, 1, 32, 5}[leg % 6];
      test::SideBySide ranks = run.ranks(size, static_cast<int>(run.draw(3)));
      if (const auto checkpoint = checkpoints.latest())
        ranks.each([&](Loader& loader) { restore(loader, *checkpoint); });
      for (std::int64_t stop = run.draw(9); stop > 0 && !is_over; --stop) {
        Story::prepare(ranks);
        auto step = step_of(ranks);
        is_over = !step;
        if (step) steps.push_back(std::move(*step));
      }
      ranks.front().rescale(World{});  // the only place that saves
      checkpoints.save_all(ranks.front().position().step, ranks.front());
    }
    EXPECT_TRUE(is_over);
    EXPECT_EQ(steps, expected);
  }
}

TEST(Mixture, MixesByWeightAfterAnyNumberOfSteps) {
  const Mixture mixture = mixture_of({100, 100, 100}, {0.5, 0.3, 0.2});
  test::SideBySide ranks(
      3, [&](World world) { return Loader(mixture, {.global_batch_size = 7, .epochs = 5}, world); });
  std::map<std::int32_t, std::int64_t> counts;
  std::int64_t taken = 0;
  while (const auto step = step_of(ranks)) {
    taken += std::ssize(step->seen);
    for (const Seen& seen : step->seen) ++counts[seen.dataset];
    EXPECT_LT(std::abs(counts[0] * 10 - taken * 5), 10);
    EXPECT_LT(std::abs(counts[1] * 10 - taken * 3), 10);
    EXPECT_LT(std::abs(counts[2] * 10 - taken * 2), 10);
  }
  EXPECT_EQ(counts[0], 500);
  EXPECT_THAT(ranks.front().mixture()->weights, ElementsAre(5, 3, 2));
}

TEST(Mixture, OfDatasetsOfOneSizeShufflesEachInItsOwnWay) {
  Mixture mixture = mixture_of({64, 64}, {1, 1});
  mixture.end = MixtureEnd::all_exhausted;  // with all samples of both
  Loader loader(mixture, {.global_batch_size = 128, .workers = 0});
  std::vector<std::vector<std::int64_t>> ids(2);
  Step step;
  append(loader, *loader.next(), step);
  for (const Seen& seen : step.seen) ids[static_cast<std::size_t>(seen.dataset)].push_back(seen.id);
  EXPECT_NE(ids[0], ids[1]);
}

TEST(Mixture, SeeksBackAcrossAChangeOfWeightsWithTheStateOfThen) {
  Loader loader(mixture_of({50, 60}, {1, 2}), {.global_batch_size = 8, .epochs = 4, .workers = 1});
  static_cast<void>(loader.next());
  const Position at = loader.position();
  const MixtureState then = *loader.mixture();
  Step before;
  append(loader, *loader.next(), before);
  loader.set_weights(std::vector<double>{2, 1});
  EXPECT_THROW(loader.seek(at), Error);
  loader.seek(at, then);
  Step again;
  append(loader, *loader.next(), again);
  EXPECT_EQ(before, again);
}

template <typename Work>
std::string refusal(Work work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Mixture, RefusesWhatCannotBeMixed) {
  const auto make = [](const Mixture& mixture) { return refusal([&] { Loader loader(mixture, {}); }); };
  EXPECT_THAT(make({}), HasSubstr("0 weights"));
  EXPECT_THAT(make(mixture_of({3, 0}, {1, 1})), HasSubstr("number 1 has no samples"));
  EXPECT_THAT(make(mixture_of({3, 3}, {1, -1})), HasSubstr("each must be 0 or more"));
  EXPECT_THAT(make({.datasets = {{.source = nullptr}}}), HasSubstr("number 0 is none"));
  Mixture mixture = mixture_of({3, 3}, {1, 1});
  mixture.steps = 5;
  EXPECT_THAT(make(mixture), HasSubstr("steps is 5"));
  mixture.end = MixtureEnd::steps;
  mixture.steps = 0;
  EXPECT_THAT(make(mixture), HasSubstr("steps is 0"));
}

TEST(Mixture, RefusesDatasetsWithOtherFieldsAndNamesThem) {
  Mixture mixture = mixture_of({3}, {1});
  mixture.datasets.push_back(
      {.source = told(3, {{.name = "y", .dtype = DType::float32, .shape = {3}, .ragged = true}})});
  EXPECT_THAT(refusal([&] { Loader loader(mixture, {}); }),
              HasSubstr("number 0 has \"x\" int64[2], \"text\" uint8[*]; number 1 has \"y\" float32[*, 3]"));
}

TEST(Mixture, RefusesWeightsThatAreNotOfItsDatasets) {
  Loader alone(counting(9), {});
  EXPECT_EQ(alone.mixture(), nullptr);
  EXPECT_THAT(refusal([&] { alone.set_weights(std::vector<double>{1}); }), HasSubstr("mixes none"));
  Loader loader(mixture_of({50, 60}, {1, 2}), {});
  EXPECT_THAT(refusal([&] { loader.set_weights(std::vector<double>{1}); }), HasSubstr("mixes 2"));
  EXPECT_THAT(refusal([&] { loader.set_weights(std::vector<double>{0, 0}); }), HasSubstr("above 0"));
  EXPECT_THAT(loader.mixture()->weights, ElementsAre(1, 2));
}

TEST(Mixture, RefusesTheCheckpointOfAnotherOne) {
  test::TemporaryDirectory directory;
  CheckpointDirectory checkpoints(mpi::Communicator(), directory.path());
  Loader saved(mixture_of({50, 60}, {1, 2}), {});
  checkpoints.save_all(0, saved);
  Loader swapped(mixture_of({60, 50}, {1, 2}), {});
  EXPECT_THAT(refusal([&] { restore(swapped, *checkpoints.latest()); }), HasSubstr("the dataset differs"));
  Loader alone(counting(110), {});
  EXPECT_THAT(refusal([&] { restore(alone, *checkpoints.latest()); }), HasSubstr("the dataset differs"));
  EXPECT_THAT(describe_loader(*checkpoints.latest()),
              HasSubstr("weights 1:2 since sample 0 (of each dataset 0, 0)"));
}

TEST(Mixture, ThatWasSavedWithOtherWeightsGoesOnWithThose) {
  test::TemporaryDirectory directory;
  CheckpointDirectory checkpoints(mpi::Communicator(), directory.path());
  Loader saved(mixture_of({50, 60}, {1, 2}), {.global_batch_size = 4});
  static_cast<void>(saved.next());
  checkpoints.save_all(0, saved);
  Loader other(mixture_of({50, 60}, {9, 1}), {.global_batch_size = 4});
  restore(other, *checkpoints.latest());
  EXPECT_EQ(*other.mixture(), *saved.mixture());
}

}  // namespace rota::test::mixture_test
