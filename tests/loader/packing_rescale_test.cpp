// The promise over packed documents: whatever worlds take turns, with checkpoints between them, every token
// of every document is seen once an epoch, in the batches of a run that never stopped.

#include "source/documents.hpp"
#include "test.hpp"

namespace rota::test::packing_rescale_test {

using test::Documents;

std::int64_t draw(std::mt19937_64& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

/// Epoch and token, that is no padding, of a sequence that is not repeated.
using Seen = std::pair<std::int64_t, std::int64_t>;

/// One global batch.
struct Step {
  std::vector<std::byte> bytes;  // of all slots, all fields of each
  std::vector<Seen> seen;
  friend bool operator==(const Step&, const Step&) = default;
};

void append(const Batch& batch, Step& step) {
  const auto tokens = batch.tensor("tokens").as<std::int64_t>();
  const auto segments = batch.tensor("segment_ids").as<std::int32_t>();
  const auto slots = static_cast<std::size_t>(batch.size());
  const std::size_t length = slots == 0 ? 0 : tokens.size() / slots;
  for (std::size_t i = 0; i < slots; ++i) {
    for (std::size_t f = 0; f < 3; ++f) {
      const auto bytes = batch.bytes(f, static_cast<std::int64_t>(i));
      step.bytes.insert(step.bytes.end(), bytes.begin(), bytes.end());
    }
    if (batch.kinds()[i] != SlotKind::sample) continue;
    for (std::size_t k = i * length; k < (i + 1) * length; ++k) {
      if (segments[k] != 0) step.seen.emplace_back(batch.epochs()[i], tokens[k]);
    }
  }
}

/// Ranks and the worker threads of each.
struct Size {
  int ranks;
  int workers;
};

/// A dataset, a loader's options, and the batch sizes that it takes in turn, three steps each.
struct Case {
  std::vector<std::int64_t> lengths;
  std::shared_ptr<const Source> packed;
  LoaderOptions options;
  std::vector<std::int64_t> batch_sizes;

  [[nodiscard]] std::int64_t batch_size(std::int64_t step) const {
    return batch_sizes[static_cast<std::size_t>(step / 3) % batch_sizes.size()];
  }
};

Case random_case(std::mt19937_64& random) {
  const std::int64_t length = draw(random, 1, 30);
  Case made;
  made.lengths = test::random_lengths(random, 40, length);
  made.lengths.push_back(1);
  PackOptions how{.length = length, .seed = random(), .shuffle_documents = draw(random, 0, 3) != 0};
  if (draw(random, 0, 1) == 0) how.eos = -1;
  made.packed = pack(std::make_shared<Documents>(made.lengths), how);
  made.options = {.shards = draw(random, 1, 40),
                  .interleave = draw(random, 0, 3),
                  .shuffle = static_cast<Shuffle>(draw(random, 0, 3)),
                  .seed = random(),
                  .block = {.samples = 4, .blocks = 3},
                  .tail = static_cast<Tail>(draw(random, 0, 3)),
                  .epochs = draw(random, 1, 2),
                  .read_ahead_batches = draw(random, 1, 3)};
  for (std::int64_t i = draw(random, 1, 3); i > 0; --i) {
    made.batch_sizes.push_back(draw(random, 1, 20 + made.packed->size() / 20));
  }
  return made;
}

/// A run whose worlds take turns, each from the checkpoint that the one before has left.
class Chain {
 public:
  Chain(const Case& c, std::mt19937_64& random) : case_(c), random_(random) {}

  std::vector<Step> through(const std::vector<Size>& worlds, std::int64_t most_steps) {
    for (std::size_t leg = 0; take(worlds[leg % worlds.size()], draw(random_, 0, most_steps));) ++leg;
    return std::move(steps_);
  }

 private:
  // False at the end of the run.
  bool take(Size size, std::int64_t stop) {
    std::vector<Loader> ranks;
    LoaderOptions options = case_.options;
    for (int rank = 0; rank < size.ranks; ++rank) {
      options.workers = size.workers;
      ranks.emplace_back(case_.packed, options, World{.rank = rank, .size = size.ranks});
      if (checkpoint_) restore(ranks.back(), *checkpoint_);
    }
    for (; stop > 0; --stop) {
      if (!step(ranks)) return false;
    }
    Loader alone(case_.packed, options);
    alone.seek(ranks[0].position());
    checkpoints_.save_all(alone.position().step, alone);
    checkpoint_ = checkpoints_.latest();
    return true;
  }

  bool step(std::vector<Loader>& ranks) {
    Step step;
    int ended = 0;
    for (Loader& loader : ranks) {
      const std::int64_t batch_size = case_.batch_size(loader.position().step);
      if (loader.options().global_batch_size != batch_size) loader.set_global_batch_size(batch_size);
      const auto batch = loader.next();
      if (batch) append(*batch, step);
      ended += batch ? 0 : 1;
    }
    EXPECT_TRUE(ended == 0 || ended == std::ssize(ranks)) << "ranks took unequal numbers of steps";
    if (ended == 0) steps_.push_back(std::move(step));
    return ended == 0;
  }

  const Case& case_;
  std::mt19937_64& random_;
  test::TemporaryDirectory directory_;
  CheckpointDirectory checkpoints_{mpi::Communicator(), directory_.path()};
  std::optional<Checkpoint> checkpoint_;
  std::vector<Step> steps_;
};

std::map<Seen, int> times_seen(const std::vector<Step>& steps) {
  std::map<Seen, int> times;
  for (const Step& step : steps) {
    for (const Seen& seen : step.seen) ++times[seen];
  }
  return times;
}

void expect_each_token_once(const Case& c, const std::vector<Step>& steps) {
  auto times = times_seen(steps);
  std::erase_if(times, [](const auto& seen) { return seen.first.second == -1; });
  std::int64_t tokens = 0;
  for (std::int64_t epoch = 0; epoch < c.options.epochs; ++epoch) {
    for (std::int64_t d = 0; d < std::ssize(c.lengths); ++d) {
      const std::int64_t length = c.lengths[static_cast<std::size_t>(d)];
      tokens += length;
      for (std::int64_t k = 0; k < length; ++k) ASSERT_EQ((times[{epoch, Documents::token(d, k)}]), 1);
    }
  }
  EXPECT_EQ(std::ssize(times), tokens);
}

TEST(PackingRescale, AnyChainOfWorldsSeesEveryTokenOnceInTheSameBatches) {
  const std::vector<Size> worlds = {{8, 1}, {7, 0}, {13, 0}, {1, 3}, {32, 0}, {5, 2}};
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const Case c = random_case(random);
    const auto steps = Chain(c, random).through(worlds, 4);
    ASSERT_EQ(steps, Chain(c, random).through({{1, 0}}, 1'000'000));
    if (c.options.tail != Tail::drop) {
      expect_each_token_once(c, steps);
      continue;
    }
    for (const auto& [seen, times] : times_seen(steps)) ASSERT_TRUE(times == 1 || seen.second == -1);
  }
}

// What loses tokens or repeats them elsewhere: documents that no sequence divides, and worlds that divide
// nothing.
TEST(PackingRescale, FourRanksOrWorkersGoOnAsAnyOthersWithDocumentsThatSequencesCut) {
  Case c{.lengths = std::vector<std::int64_t>(100, 100),
         .packed = nullptr,
         .options = {.shards = 7},
         .batch_sizes = {24}};
  c.packed = pack(std::make_shared<Documents>(c.lengths), {.length = 12});
  ASSERT_EQ(c.packed->size(), 834);
  for (const int then : {1, 2, 3, 6, 12}) {
    std::mt19937_64 random(static_cast<std::uint64_t>(then));
    expect_each_token_once(c, Chain(c, random).through({{4, 1}, {then, 1}}, 20));
    expect_each_token_once(c, Chain(c, random).through({{1, 4}, {1, then}}, 20));
  }
}

}  // namespace rota::test::packing_rescale_test
