// The promise of rota over windows: whatever worlds take turns, with a checkpoint between them, every window
// of an epoch is seen once, with the rows that it is made of.

#include "source/numbered_rows.hpp"
#include "test.hpp"

namespace rota::test::windows_rescale_test {

using Numbers = std::vector<std::int64_t>;

struct Step {
  Position start;
  Numbers ids;
  std::vector<SlotKind> kinds;
  Numbers epochs;
  friend bool operator==(const Step&, const Step&) = default;
};

/// Rows in parts, some of which are sharded as their source likes.
class Rows final : public test::NumberedRows {
 public:
  Rows(const Numbers& parts, Numbers lengths) : NumberedRows(parts), lengths_(std::move(lengths)) {}
  [[nodiscard]] Numbers shard_lengths(std::int64_t /*shards*/) const override { return lengths_; }

 private:
  Numbers lengths_;
};

/// A dataset of windows, and a run over it, at random.
class Chain {
 public:
  explicit Chain(std::uint64_t seed) : random_(seed) {
    Numbers parts(static_cast<std::size_t>(draw(4, 9)));
    for (auto& part : parts) part = draw(0, 90);
    parts.back() = 200;
    shape_ = {.length = draw(1, 20), .stride = draw(1, 5), .across_files = draw(0, 1) == 1};
    const bool has_lengths = seed % 3 == 0;
    const auto shards = has_lengths ? std::ssize(parts) : draw(1, 40);
    source_ = windows(std::make_shared<Rows>(parts, has_lengths ? parts : Numbers{}), shape_);
    if (shape_.across_files) parts = {std::accumulate(parts.begin(), parts.end(), std::int64_t{0})};
    firsts_ = test::naive_windows(parts, shape_.length, shape_.stride);
    for (std::int64_t k = draw(1, 4); k > 0; --k) sizes_.push_back(draw(1, 20));
    options_ = {.global_batch_size = sizes_[0],
                .shards = shards,
                .interleave = draw(0, 3),
                .shuffle = static_cast<Shuffle>(draw(0, 3)),
                .seed = seed,
                .block = {.samples = 8, .blocks = 4},
                .tail = static_cast<Tail>(seed % 4),
                .epochs = 3};
  }

  [[nodiscard]] std::int64_t draw(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  [[nodiscard]] const Numbers& firsts() const { return firsts_; }
  [[nodiscard]] const LoaderOptions& options() const { return options_; }

  /// The steps of one process that nobody stops.
  std::vector<Step> unbroken() {
    std::vector<Loader> alone;
    alone.emplace_back(source_, options_);
    std::vector<Step> steps;
    for (Step step; take(alone, step);) steps.push_back(step);
    return steps;
  }

  /// Up to some steps in a world of `size` ranks, from the newest checkpoint on, and then the next one.
  /// Whether the run has ended.
  bool leg(int size, CheckpointDirectory& checkpoints, std::vector<Step>& steps) {
    const auto checkpoint = checkpoints.latest();
    const bool is_again = draw(0, 2) == 0;
    const std::int64_t stop = draw(0, 5);
    if (is_again) {  // a start that gets nowhere before the next
      std::vector<Loader> lost = world(size, checkpoint);
      Step step;
      static_cast<void>(take(lost, step));
    }
    std::vector<Loader> ranks = world(size, checkpoint);
    bool is_over = false;
    for (std::int64_t k = 0; k < stop && !is_over; ++k) {
      Step step;
      is_over = !take(ranks, step);
      if (!is_over) steps.push_back(step);
    }
    Loader saved(source_, options_);  // as all ranks together save it
    saved.seek(ranks.back().position());
    checkpoints.save_all(saved.position().step, saved);
    return is_over;
  }

 private:
  std::vector<Loader> world(int size, const std::optional<Checkpoint>& checkpoint) {
    LoaderOptions options = options_;
    options.workers = static_cast<int>(draw(0, 3));
    options.read_ahead_batches = draw(1, 5);
    std::vector<Loader> ranks;
    for (int r = 0; r < size; ++r) {
      ranks.emplace_back(source_, options, World{.rank = r, .size = size});
      if (checkpoint) restore(ranks.back(), *checkpoint);
    }
    return ranks;
  }

  /// One step of all ranks, of a size that is the same wherever the run is at that step.
  bool take(std::vector<Loader>& ranks, Step& step) {
    step = {};
    std::size_t ended = 0;
    for (Loader& loader : ranks) {
      const auto turn = static_cast<std::size_t>(loader.position().step) / 3;
      loader.set_global_batch_size(sizes_[turn % sizes_.size()]);
      const auto batch = loader.next();
      ended += batch ? 0U : 1U;
      if (batch) append(*batch, step);
    }
    EXPECT_TRUE(ended == 0 || ended == ranks.size()) << "ranks took unequal numbers of steps";
    return ended == 0;
  }

  void append(const Batch& batch, Step& step) {
    step.start = batch.start();
    step.kinds.insert(step.kinds.end(), batch.kinds().begin(), batch.kinds().end());
    step.epochs.insert(step.epochs.end(), batch.epochs().begin(), batch.epochs().end());
    const auto x = batch.tensor("x").as<std::int64_t>();  // [size, length]
    const auto y = batch.tensor("y").as<std::uint8_t>();  // [size, length, 3, 2]
    ASSERT_EQ(std::ssize(x), batch.size() * shape_.length);
    std::size_t at = 0;
    for (const SampleId id : batch.ids()) {
      step.ids.push_back(id.value);
      for (std::int64_t k = 0; k < shape_.length; ++k, ++at) {
        const std::int64_t row = firsts_[static_cast<std::size_t>(id.value)] + k;
        ASSERT_EQ(x[at], row);
        for (std::size_t b = 0; b < 6; ++b)
          ASSERT_EQ(std::byte{y[6 * at + b]}, test::NumberedRows::y(row, b));
      }
    }
  }

  std::mt19937_64 random_;
  WindowOptions shape_;
  std::shared_ptr<const Source> source_;
  Numbers firsts_;
  Numbers sizes_;  // of batches, three steps each, in turn
  LoaderOptions options_;
};

/// How often each window was real in each epoch.
std::map<std::int64_t, std::map<std::int64_t, int>> count(const std::vector<Step>& steps) {
  std::map<std::int64_t, std::map<std::int64_t, int>> seen;
  for (const Step& step : steps) {
    for (std::size_t i = 0; i < step.ids.size(); ++i) {
      if (step.kinds[i] == SlotKind::sample) ++seen[step.epochs[i]][step.ids[i]];
    }
  }
  return seen;
}

void expect_every_window_once(const Chain& chain, const std::vector<Step>& steps) {
  const auto seen = count(steps);
  for (const auto& [epoch, ids] : seen) {
    for (const auto& [id, times] : ids) ASSERT_EQ(times, 1) << "window " << id << " of epoch " << epoch;
    const std::size_t least = chain.options().tail == Tail::drop ? 1 : chain.firsts().size();
    ASSERT_GE(ids.size(), least) << "epoch " << epoch;
  }
  EXPECT_EQ(seen.size(), 3U);
}

TEST(WindowsRescale, AnyChainOfWorldsSeesEveryWindowOnceInTheSameBatches) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Chain chain(seed);
    const test::TemporaryDirectory directory;
    CheckpointDirectory checkpoints(mpi::Communicator(), directory.path());
    std::vector<Step> steps;
    bool is_over = false;
    int legs = 0;
    for (const int sizes[] = {8, 7, 13, 1, 32, 5}; !is_over && legs < 400; ++legs) {
      is_over = chain.leg(sizes[legs % 6], checkpoints, steps);
    }
    ASSERT_TRUE(is_over);
    EXPECT_GE(legs, 6) << "not every world had its turn";
    ASSERT_EQ(steps, chain.unbroken());
    expect_every_window_once(chain, steps);
  }
}

}  // namespace rota::test::windows_rescale_test
