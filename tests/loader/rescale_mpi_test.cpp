// The promise through the real thing: worlds of every size that mpirun's ranks can form take turns, with a
// checkpoint on disk between them.

#include "all_of_ranks.hpp"
#include "moved_from.hpp"
#include "mpi/collectives.hpp"
#include "mpi_main.hpp"
#include "source/told_source.hpp"
#include "test.hpp"

namespace rota::test::rescale_mpi_test {

struct Sample {
  std::int64_t epoch;
  std::int64_t first;  // consumed before its batch
  std::int64_t id;
};
using Samples = std::vector<Sample>;

std::vector<std::int64_t> flat(const Samples& samples) {
  std::vector<std::int64_t> values;
  for (const Sample& s : samples) values.insert(values.end(), {s.epoch, s.first, s.id});
  return values;
}

void append(const Batch& batch, Samples& samples) {
  for (std::size_t i = 0; i < batch.ids().size(); ++i) {
    if (batch.kinds()[i] != SlotKind::sample) continue;
    samples.push_back({batch.start().epoch, batch.start().consumed, batch.ids()[i].value});
    EXPECT_EQ(batch.tensor("x").as<std::int64_t>()[2 * i], batch.ids()[i].value);
  }
}

/// Rank 0's random choices, the same on every rank.
class Chain {
 public:
  explicit Chain(std::uint64_t seed) : random_(seed) {
    static const char* tails[] = {"partial", "carry", "pad", "drop"};
    static const char* shuffles[] = {"global", "within", "none", "block"};
    std::vector<std::int64_t> lengths;
    if (seed % 2 == 1) lengths = {50, 0, 3, 100, 47, 100};
    source_ = counting(300, lengths);
    options_ = {.global_batch_size = draw(1, 50),
                .shards = lengths.empty() ? draw(1, 40) : 6,
                .interleave = draw(0, 3),
                .shuffle = parse_shuffle(shuffles[seed % 4]),
                .seed = seed,
                .tail = parse_tail(tails[seed / 4 % 4]),
                .epochs = 2};
  }
  std::int64_t draw(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }

  /// An uninterrupted run of one rank.
  std::vector<std::int64_t> reference() const {
    Samples samples;
    Loader loader(source_, options_, World{});
    for (const Batch& batch : loader) append(batch, samples);
    return flat(samples);
  }

  /// A few steps in a world of the first `size` ranks, from the newest checkpoint on; true at the end of the
  /// run. What was seen is appended to `seen` of every rank of the world.
  bool leg(int size, const std::filesystem::path& directory, std::vector<std::int64_t>& seen) {
    const int steps = static_cast<int>(draw(0, 8));
    options_.workers = static_cast<int>(draw(0, 2));
    const mpi::Communicator& all = mpi_session().comm();
    MPI_Comm part = MPI_COMM_NULL;
    MPI_Comm_split(all.get(), all.rank() < size ? 0 : MPI_UNDEFINED, all.rank(), &part);
    std::int64_t is_over = 0;
    if (part != MPI_COMM_NULL) {
      is_over = run(mpi::Communicator(part), steps, directory, seen) ? 1 : 0;
      MPI_Comm_free(&part);
    }
    mpi::max(all, std::span(&is_over, 1));
    return is_over != 0;
  }

 private:
  bool run(const mpi::Communicator& comm, int steps, const std::filesystem::path& directory,
           std::vector<std::int64_t>& seen) {
    CheckpointDirectory checkpoints(comm, directory);
    Loader loader(source_, options_, comm.world());
    if (const auto checkpoint = checkpoints.latest()) restore(loader, *checkpoint);
    bool is_over = false;
    for (int k = 0; k < steps && !is_over; ++k) {
      Samples samples;
      const auto batch = loader.next();
      if (batch) append(*batch, samples);
      is_over = !batch;
      const auto together = test::all_of_ranks(comm, flat(samples));
      seen.insert(seen.end(), together.begin(), together.end());
    }
    checkpoints.save_all(loader.position().step, loader);
    return is_over;
  }

  std::mt19937_64 random_;
  std::shared_ptr<const Source> source_;
  LoaderOptions options_;
};

TEST(Rescale, AChainOfWorldsWithCheckpointsBetweenSeesWhatAnUnbrokenRunSees) {
  const mpi::Communicator& comm = mpi_session().comm();
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    Chain chain(seed);
    std::unique_ptr<test::TemporaryDirectory> owner;
    if (comm.rank() == 0) owner = std::make_unique<test::TemporaryDirectory>();
    const std::filesystem::path directory = mpi::broadcast(comm, owner ? owner->path().string() : "");
    std::vector<std::int64_t> seen;
    bool is_over = false;
    int legs = 0;
    while (!is_over && legs++ < 400)
      is_over = chain.leg(static_cast<int>(chain.draw(1, comm.size())), directory, seen);
    EXPECT_TRUE(is_over);
    if (comm.rank() == 0) {  // which is in every world
      EXPECT_EQ(seen, chain.reference()) << "seed " << seed;
    }
  }
}

TEST(Resume, RanksThatShareAPlaceCannotBothSaveIt) {
  const mpi::Communicator& comm = mpi_session().comm();
  if (comm.size() == 1) GTEST_SKIP() << "one rank has no others";
  std::unique_ptr<test::TemporaryDirectory> owner;
  if (comm.rank() == 0) owner = std::make_unique<test::TemporaryDirectory>();
  CheckpointDirectory checkpoints(comm, mpi::broadcast(comm, owner ? owner->path().string() : ""));
  const Loader alone(counting(100), {.shards = 4}, World{.rank = 0, .size = 1});
  EXPECT_THROW(checkpoints.save_all(0, alone), Error);
  EXPECT_FALSE(checkpoints.latest());
}

TEST(Resume, LoadersThatDifferBetweenRanksAreToldApart) {
  const mpi::Communicator& comm = mpi_session().comm();
  const auto source = counting(100);
  const auto make = [&](std::uint64_t seed) {
    return Loader(comm, source,
                  {.seed = seed, .workers = comm.rank() % 2, .read_ahead_batches = 1 + comm.rank()});
  };
  EXPECT_EQ(make(3).world(), comm.world());
  if (comm.size() == 1) GTEST_SKIP() << "one rank has no others";
  try {
    make(comm.rank() == 1 ? 4 : 3);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mismatch);
    EXPECT_THAT(error.what(),
                ::testing::AllOf(::testing::HasSubstr("rank 1: make loaders"), ::testing::HasSubstr("seed 3"),
                                 ::testing::HasSubstr("seed 4")));
  }
}

/// Options of loaders, each of which makes another run.
std::vector<LoaderOptions> all_different() {
  const LoaderOptions plain{.global_batch_size = 10};
  std::vector<LoaderOptions> all(10, plain);
  all[0].global_batch_size = 11;
  all[1].shards = 7;
  all[2].interleave = 3;
  all[3].shuffle = Shuffle::within;
  all[4].tail = Tail::carry;
  all[5].rank_split = Split::interleaved;
  all[6].epochs = 2;
  all[7].bad_samples.policy = OnBadSample::skip;
  all[8].shuffle = Shuffle::block;
  all[9] = all[8];
  all[9].block.samples = 7;
  return all;
}

TEST(Resume, LoadersOfRanksThatDifferInOneOptionAreNotMade) {
  const mpi::Communicator& comm = mpi_session().comm();
  if (comm.size() == 1) GTEST_SKIP() << "one rank has no others";
  const auto source = counting(100);
  const auto options = all_different();
  for (std::size_t i = 0; i < options.size(); ++i) {
    const LoaderOptions plain = i == 9 ? options[8] : LoaderOptions{.global_batch_size = 10};
    EXPECT_THROW(Loader(comm, source, comm.rank() == 0 ? options[i] : plain), Error) << i;
  }
  const auto other = counting(comm.rank() == 0 ? 99 : 100);
  EXPECT_THROW(Loader(comm, other, {}), Error);
  const Mixture mixture{.datasets = {{source, comm.rank() == 0 ? 0.5 : 0.4}, {source, 0.6}}};
  EXPECT_THROW(Loader(comm, mixture, {}), Error);
}

/// A dataset that cannot say on the last rank which it is.
std::shared_ptr<const Source> unnamed() {
  const auto source = counting(100);
  if (mpi_session().comm().rank() == mpi_session().comm().size() - 1) {
    source->on_fingerprint = [](Fingerprint) -> Fingerprint {
      throw Error(ErrorCode::io, "its list is gone");
    };
  }
  return source;
}

TEST(Resume, LoadersOfWhichOneCannotSayWhatItReadsAreRefusedOnAllRanks) {
  const mpi::Communicator& comm = mpi_session().comm();
  if (comm.size() == 1) GTEST_SKIP() << "one rank has no others";
  try {
    const Loader loader(comm, unnamed(), {});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("its list is gone"));
  }
}

TEST(Resume, LoadersOfWhichOneCannotSayWhatItReadsAreNotRescaledOnAnyRank) {
  const mpi::Communicator& comm = mpi_session().comm();
  Loader loader(unnamed(), {}, comm.world());
  try {
    loader.rescale(comm);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("its list is gone"));
  }
}

TEST(Resume, LoadersOfWhichOneWasMovedFromAreNotRescaledOnAnyRank) {
  const mpi::Communicator& comm = mpi_session().comm();
  Loader loader(counting(100), {}, comm.world());
  std::optional<Loader> taken;
  if (comm.rank() == comm.size() - 1) taken.emplace(std::move(loader));
  // NOLINTNEXTLINE(bugprone-use-after-move): what is tested
  expect_refused("a loader", {[&] { loader.rescale(comm); }});
}

}  // namespace rota::test::rescale_mpi_test
