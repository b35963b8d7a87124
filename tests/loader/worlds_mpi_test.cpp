// Windows, packed documents, mixtures, and all of it at once, through worlds of 8, 7, 13, 1, 32 and 5 real
// ranks, with checkpoints between them: the same global batches as one process that nobody stops.

#include "all_of_ranks.hpp"
#include "mpi/collectives.hpp"
#include "mpi_main.hpp"
#include "source/documents.hpp"
#include "source/numbered_rows.hpp"
#include "source/told_source.hpp"
#include "test.hpp"

namespace rota::test::worlds_mpi_test {

constexpr std::array kWorlds = {8, 7, 13, 1, 32, 5};
constexpr std::array<std::int64_t, 3> kBatches = {40, 13, 29};
constexpr std::int64_t kStepOfNewWeights = 5;

/// The slots of a global batch, each with a digest of all that is known of it.
using Step = std::vector<std::array<std::int64_t, 2>>;

struct Kind {
  std::string name;
  std::function<Loader(const LoaderOptions&, World)> make;
};

std::shared_ptr<const Source> packed(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  auto lengths = test::random_lengths(random, 60, 12);
  lengths.push_back(700);
  return pack(std::make_shared<test::Documents>(lengths), {.length = 12, .eos = -1, .seed = seed});
}

Kind of_source(const std::string& name, std::shared_ptr<const Source> source) {
  return {.name = name, .make = [source = std::move(source)](const LoaderOptions& options, World world) {
            return Loader(source, options, world);
          }};
}

Kind of_mixture(const std::string& name, std::vector<WeightedSource> datasets) {
  const Mixture mixture{.datasets = std::move(datasets), .end = MixtureEnd::all_exhausted};
  return {.name = name, .make = [mixture](const LoaderOptions& options, World world) {
            return Loader(mixture, options, world);
          }};
}

Kind kind(const std::string& name) {
  const std::vector<std::int64_t> parts = {2, 0, 300, 5, 41};  // one empty, one 100 times another
  if (name == "Windows") {
    return of_source(
        name, windows(std::make_shared<test::NumberedRows>(parts), {.length = 5, .across_files = true}));
  }
  if (name == "Packing") return of_source(name, packed(3));
  if (name == "Mixture") {
    return of_mixture(name, {{.source = counting(150), .weight = 0.5},
                             {.source = counting(61), .weight = 0.3},
                             {.source = counting(7), .weight = 0.2}});
  }
  const auto both = [](std::uint64_t seed) { return windows(packed(seed), {.length = 3, .stride = 2}); };
  return of_mixture(name, {{.source = both(1), .weight = 3}, {.source = both(2), .weight = 5}});
}

LoaderOptions options_of(std::uint64_t seed) {
  return {.global_batch_size = kBatches[0],
          .shards = 11,
          .shuffle = seed % 2 == 0 ? Shuffle::global : Shuffle::within,
          .seed = seed,
          .tail = seed % 3 == 0 ? Tail::carry : Tail::partial,
          .epochs = 2};
}

std::int64_t digest(const Batch& batch, std::size_t i) {
  FingerprintBuilder builder;
  builder.add(batch.ids()[i].value).add(batch.epochs()[i]).add(batch.datasets()[i]);
  builder.add(static_cast<int>(batch.kinds()[i]));
  for (std::size_t f = 0; f < batch.fields().size(); ++f) {
    const auto bytes = batch.bytes(f, static_cast<std::int64_t>(i));
    builder.add(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  return static_cast<std::int64_t>(builder.finish().low);
}

/// **Collective.** The next global batch; empty at the end of the run.
Step next(Loader& loader, const mpi::Communicator& comm) {
  const std::int64_t step = loader.position().step;
  if (loader.mixture() != nullptr && step == kStepOfNewWeights) {
    std::vector<double> weights(static_cast<std::size_t>(loader.datasets()), 1);
    loader.set_weights(weights);
  }
  loader.set_global_batch_size(kBatches[static_cast<std::size_t>(step) / 3 % kBatches.size()]);
  std::vector<std::int64_t> mine;
  const auto batch = loader.next();
  for (std::size_t i = 0; batch && i < batch->ids().size(); ++i) {
    mine.insert(mine.end(), {batch->slots()[i], digest(*batch, i)});
  }
  const auto all = test::all_of_ranks(comm, mine);
  Step slots;
  for (std::size_t at = 0; at < all.size(); at += 2) slots.push_back({all[at], all[at + 1]});
  std::ranges::sort(slots);
  return slots;
}

std::vector<Step> unbroken(const Kind& kind, const LoaderOptions& options) {
  Loader loader = kind.make(options, {});
  std::vector<Step> steps;
  for (Step step; !(step = next(loader, {})).empty();) steps.push_back(step);
  return steps;
}

/// A run that goes from world to world.
class Chain {
 public:
  Chain(const Kind& kind, std::uint64_t seed) : kind_(kind), random_(seed), options_(options_of(seed)) {
    if (all().rank() == 0) owner_ = std::make_unique<test::TemporaryDirectory>();
    directory_ = mpi::broadcast(all(), owner_ ? owner_->path().string() : "");
  }

  /// What rank 0, which is in every world, has seen.
  std::vector<Step> run() {
    std::size_t legs = 0;
    while (!take_leg(kWorlds[legs % kWorlds.size()]) && legs < 200) ++legs;
    EXPECT_GE(legs, kWorlds.size()) << "not all worlds had a turn";
    return steps_;
  }

 private:
  static const mpi::Communicator& all() { return mpi_session().comm(); }
  std::int64_t draw(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }

  // Some steps in a world of that many ranks, from the newest checkpoint on; true at the end of the run.
  bool take_leg(int size) {
    const std::int64_t steps = draw(0, 3);
    const bool is_saved = draw(0, 3) != 0;  // else it is as if it had been killed
    options_.workers = static_cast<int>(draw(0, 2));
    MPI_Comm part = MPI_COMM_NULL;
    MPI_Comm_split(all().get(), all().rank() < size ? 0 : MPI_UNDEFINED, all().rank(), &part);
    std::int64_t is_over = 0;
    if (part != MPI_COMM_NULL) {
      is_over = go_on(mpi::Communicator(part), steps, is_saved) ? 1 : 0;
      MPI_Comm_free(&part);
    }
    mpi::max(all(), std::span(&is_over, 1));
    return is_over != 0;
  }

  bool go_on(const mpi::Communicator& comm, std::int64_t steps, bool is_saved) {
    CheckpointDirectory checkpoints(comm, directory_);
    Loader loader = kind_.make(options_, comm.world());
    checkpoints.restore_all(loader);
    steps_.resize(static_cast<std::size_t>(loader.position().step));
    for (; steps > 0; --steps) {
      Step step = next(loader, comm);
      if (step.empty()) return true;
      steps_.push_back(std::move(step));
    }
    if (is_saved) checkpoints.save_all(loader.position().step, loader);
    return false;
  }

  const Kind& kind_;
  std::mt19937_64 random_;  // the same on all ranks
  LoaderOptions options_;
  std::unique_ptr<test::TemporaryDirectory> owner_;
  std::filesystem::path directory_;
  std::vector<Step> steps_;
};

class Worlds : public ::testing::TestWithParam<std::string> {};

TEST_P(Worlds, OfRealRanksSeeTheBatchesOfAnUnbrokenRun) {
  const Kind kind = worlds_mpi_test::kind(GetParam());
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    const std::vector<Step> steps = Chain(kind, seed).run();
    if (mpi_session().comm().rank() != 0) continue;
    const std::vector<Step> expected = unbroken(kind, options_of(seed));
    EXPECT_GT(expected.size(), static_cast<std::size_t>(kStepOfNewWeights));
    EXPECT_EQ(steps, expected) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Worlds, ::testing::Values("Windows", "Packing", "Mixture", "Everything"),
                         [](const auto& kind) { return kind.param; });

}  // namespace rota::test::worlds_mpi_test
