// Runs over a dataset whose names are spread over ranks are those over one whose names are not.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "mpi_main.hpp"
#include "rota/error.hpp"
#include "rota/loader.hpp"
#include "rota/open.hpp"
#include "temporary_directory.hpp"

namespace rota::test {
namespace {

constexpr int kFiles = 3000;

/// Files that say which they are, in rank 0's directory.
class Distributed : public ::testing::Test {
 protected:
  Distributed() {
    if (comm().rank() == 0) {
      directory_.emplace();
      for (int i = 0; i < kFiles; ++i) directory_->write(fmt::format("{:05}", i), std::to_string(i));
    }
    data_ = mpi::broadcast(comm(), directory_ ? directory_->path().string() : std::string());
  }
  ~Distributed() override { mpi::agree(comm(), "wait", nullptr); }

  static const mpi::Communicator& comm() { return mpi_session().comm(); }
  [[nodiscard]] std::shared_ptr<const Source> open_distributed(Evidence evidence = Evidence::sizes) const {
    return open(Catalog(data_, {.evidence = evidence, .placement = Placement::distributed, .comm = &comm()}));
  }
  static void expect_contents(const Batch& batch) {
    for (std::int64_t i = 0; i < batch.size(); ++i) {
      const auto bytes = batch.bytes(0, i);
      const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      EXPECT_EQ(text, std::to_string(batch.ids()[static_cast<std::size_t>(i)].value));
    }
  }
  static std::vector<SampleId> ids_of(const Batch& batch) { return {batch.ids().begin(), batch.ids().end()}; }

  std::optional<TemporaryDirectory> directory_;
  std::string data_;
};

/// Options of all kinds, the same on every rank.
LoaderOptions random_options(std::mt19937_64& random) {
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  static constexpr std::array kTails = {Tail::partial, Tail::carry, Tail::drop, Tail::pad};
  static constexpr std::array kShuffles = {Shuffle::none, Shuffle::within, Shuffle::global, Shuffle::block};
  return {.global_batch_size = draw(1, 100),
          .shards = draw(1, 300),
          .interleave = draw(0, 20),
          .shuffle = kShuffles.at(random() % 4),
          .seed = random(),
          .tail = kTails.at(random() % 4),
          .epochs = draw(1, 2),
          .workers = static_cast<int>(draw(0, 3)),
          .read_ahead_batches = draw(1, 100)};
}

TEST_F(Distributed, RunsReadWhatRunsOverSharedNamesRead) {
  std::mt19937_64 random(7);
  const std::shared_ptr<const Source> shared = open(data_);
  for (int run = 0; run < 6; ++run) {
    const auto source = open_distributed(run % 2 == 0 ? Evidence::sizes : Evidence::names);
    const LoaderOptions options = random_options(random);
    Loader loader(source, options, comm().world());
    Loader plain(shared, options, comm().world());
    for (auto expected = plain.next(); expected; expected = plain.next()) {
      const auto batch = loader.next();
      ASSERT_TRUE(batch);
      ASSERT_EQ(ids_of(*batch), ids_of(*expected));
      expect_contents(*batch);
    }
    EXPECT_FALSE(loader.next());
    EXPECT_FALSE(loader.next());
  }
}

TEST_F(Distributed, RunsGoOnElsewhere) {
  std::mt19937_64 random(8);
  const World world = comm().world();
  const World other{.rank = world.size - 1 - world.rank, .size = world.size};
  Loader loader(open_distributed(), {.global_batch_size = 16, .epochs = 3, .workers = 2}, world);
  Loader plain(open(data_), {.global_batch_size = 16, .epochs = 3}, world);
  for (int move = 0; move < 12; ++move) {
    for (auto steps = 1 + random() % 100; steps > 0; --steps) {
      const auto batch = loader.next();
      const auto expected = plain.next();
      ASSERT_EQ(batch.has_value(), expected.has_value());
      if (!batch) break;
      ASSERT_EQ(ids_of(*batch), ids_of(*expected));
      expect_contents(*batch);
    }
    const Position place{.epoch = 1, .consumed = static_cast<std::int64_t>(random() % kFiles), .step = 5};
    const auto size = static_cast<std::int64_t>(1 + random() % 40);
    for (Loader* each : {&loader, &plain}) {
      if (move % 3 == 0) each->seek(place);
      if (move % 3 == 1) each->rescale(move % 2 == 0 ? other : world);
      if (move % 3 == 2) each->set_global_batch_size(size);
    }
  }
}

TEST_F(Distributed, RunsGoOnWhenOneRankCouldNotRead) {
  Loader loader(open_distributed(), {.global_batch_size = 10, .shuffle = Shuffle::none, .workers = 1},
                comm().world());
  if (directory_) std::filesystem::rename(*directory_ / "00005", *directory_ / "aside");
  mpi::agree(comm(), "wait", nullptr);
  std::int64_t failures = 0;
  std::int64_t seen = 0;
  for (bool is_over = false; !is_over;) {
    try {
      const auto batch = loader.next();
      is_over = !batch;
      seen += batch ? batch->size() : 0;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("00005"));
      ++failures;
      std::filesystem::rename(std::filesystem::path(data_) / "aside", std::filesystem::path(data_) / "00005");
    }
  }
  const auto all = mpi::gather(comm(), failures);
  EXPECT_EQ(std::accumulate(all.begin(), all.end(), std::int64_t{0}), 1);
  const auto samples = mpi::gather(comm(), seen);
  EXPECT_EQ(std::accumulate(samples.begin(), samples.end(), std::int64_t{0}), kFiles);
}

TEST_F(Distributed, RanksMayReadAheadEachAsFarAsItLikes) {
  const auto source = open_distributed();
  const int rank = comm().rank();
  for (const std::int64_t batch : {16, 47}) {  // 188 and 64 steps
    Loader loader(source,
                  {.global_batch_size = batch,
                   .workers = rank % 3,
                   .read_ahead_batches =
                       std::array<std::int64_t, 4>{1, 300, 5, 70}.at(static_cast<std::size_t>(rank) % 4)},
                  comm().world());
    loader.warm_up();
    std::int64_t seen = 0;
    for (const Batch& each : loader) {
      expect_contents(each);
      seen += each.size();
    }
    EXPECT_FALSE(loader.next());
    mpi::sum(comm(), std::span(&seen, 1));
    EXPECT_EQ(seen, kFiles);
  }
}

TEST_F(Distributed, LoadersOverOneDatasetDoNotTakeNamesFromEachOther) {
  const auto source = open_distributed();
  Loader training(source, {.global_batch_size = 8, .workers = 1}, comm().world());
  for (int step = 0; step < 10; ++step) expect_contents(*training.next());
  for (int pass = 0; pass < 3; ++pass) {
    Loader validation(source, {.global_batch_size = 300, .workers = 1}, comm().world());
    for (const Batch& batch : validation) expect_contents(batch);
  }
  for (int step = 10; step < 200; ++step) expect_contents(*training.next());
}

TEST_F(Distributed, PartsOfASplitBringWhatTheyRead) {
  const auto source = open_distributed();
  const std::array<double, 2> fractions = {0.5, 0.5};
  const auto parts = split(source, fractions, 3);
  EXPECT_TRUE(parts[1]->is_spread());
  Loader loader(parts[1], {.global_batch_size = 8}, comm().world());
  loader.warm_up();
  std::int64_t batches = 0;
  for (; auto batch = loader.next();) ++batches;
  EXPECT_EQ(batches, (kFiles / 2 + 7) / 8);
}

}  // namespace
}  // namespace rota::test
