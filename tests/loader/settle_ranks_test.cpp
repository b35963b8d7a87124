// Samples that ranks settle by hand, and what all of them know of it together.

#include <set>

#include "cli/audit.hpp"
#include "loader/ranks.hpp"
#include "rota/resume.hpp"

namespace rota::test::settle_ranks_test {

using Name = std::pair<std::int64_t, std::int64_t>;  // id, epoch

/// A rank of a run whose consumers take their time, in lockstep with the others.
class Consumers {
 public:
  Consumers(const Course& course, std::uint64_t seed, fs::path traces)
      : loader_(course.make(everyone())),
        traces_(std::move(traces)),
        common_(seed),
        own_(seed + 1 + static_cast<std::uint64_t>(everyone().rank())) {}

  /// **Collective.** To the end of the run; what this rank has trained.
  Numbers run(CheckpointDirectory& checkpoints) {
    trace_.emplace(everyone(), traces_, loader_);
    for (int idle = 0; idle < 3;) {
      const std::int64_t which = draw(common_, 0, 9);
      if (which < 5) {
        const bool is_there = next();
        idle = is_there ? 0 : idle;
        if (!is_there && finish()) ++idle;
      } else if (which < 8) {
        settle(draw(own_, 0, std::ssize(out_)));
      } else if (which == 8) {
        give_up();
        if (draw(common_, 0, 1) == 0) merge();
      } else {
        go_back(checkpoints);
      }
    }
    trace_->end(loader_);
    return trained_;
  }
  const Loader& loader() const { return loader_; }

 private:
  bool next() {
    const auto batch = loader_.next();
    EXPECT_THAT(ranks::all_gather(everyone(), batch ? 1 : 0), Each(batch ? 1 : 0))
        << "unequal numbers of steps";
    if (batch) trace_->write(*batch);
    for (std::size_t i = 0; batch && i < batch->ids().size(); ++i) {
      if (batch->kinds()[i] == SlotKind::sample) out_.emplace_back(batch->ids()[i].value, batch->epochs()[i]);
    }
    return batch.has_value();
  }
  void settle(std::int64_t count) {
    std::ranges::shuffle(out_, own_);
    std::vector<SampleId> ids;
    std::vector<std::int64_t> epochs;
    for (; count > 0; --count, out_.pop_back()) {
      ids.push_back({out_.back().first});
      epochs.push_back(out_.back().second);
      trained_.insert(trained_.end(), {out_.back().first, out_.back().second});
    }
    loader_.settle(ids, epochs);
  }
  void give_up() {
    out_.clear();
    loader_.again();
  }
  void merge() {
    loader_.merge(everyone());
    EXPECT_TRUE(ranks::is_same(everyone(), "look at states", state(loader_)));
  }
  /// All is settled, on all ranks, or comes again.
  bool finish() {
    if (draw(own_, 0, 1) == 0) settle(std::ssize(out_));
    give_up();
    merge();
    return ranks::all_gather(everyone(), loader_.run().open().ids.empty() ? 0 : 1) ==
           Numbers(static_cast<std::size_t>(everyone().size()));
  }
  /// Saves and goes on a while, or to what was saved before.
  void go_back(CheckpointDirectory& checkpoints) {
    const auto latest = checkpoints.latest();
    if (!latest || draw(common_, 0, 1) == 0) {
      checkpoints.save_all(++saves_, loader_);
      saved_ = trained_;
      return;
    }
    restore(loader_, *latest);
    trace_.emplace(everyone(), traces_, loader_);
    trained_ = saved_;
    out_.clear();
  }

  Loader loader_;
  fs::path traces_;
  std::optional<TraceWriter> trace_;
  std::mt19937_64 common_;
  std::mt19937_64 own_;
  std::vector<Name> out_;
  Numbers trained_;
  Numbers saved_;
  std::int64_t saves_ = 0;
};

TEST(SettleOfRanks, TrainsEachSampleOnceWhereverItComesAgain) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    std::mt19937_64 random(seed);
    Course course = random_course(kCourses[random() % 3], random);
    course.options.settle = Settle::by_hand;
    course.options.workers = static_cast<int>(draw(random, 0, 2));
    if (course.options.tail == Tail::drop) course.options.tail = Tail::partial;
    const SharedDirectory directory;
    CheckpointDirectory checkpoints(everyone(), directory.path());
    Consumers consumers(course, seed, directory.path() / "traces");
    const Numbers mine = consumers.run(checkpoints);
    const Numbers all = all_of_ranks(everyone(), mine);
    const auto report = cli::audit(directory.path() / "traces", {.samples = {course.source->size()}});
    EXPECT_THAT(cli::problem_text(report.problems), "") << "seed " << seed;
    EXPECT_THAT(report.open, IsEmpty());
    std::multiset<Name> trained;
    for (std::size_t i = 0; i < all.size(); i += 2) trained.emplace(all[i], all[i + 1]);
    std::multiset<Name> wanted;
    for (std::int64_t epoch = 0; epoch < course.options.epochs; ++epoch) {
      for (std::int64_t id = 0; id < course.source->size(); ++id) wanted.emplace(id, epoch);
    }
    EXPECT_EQ(trained, wanted) << "seed " << seed;
  }
}

TEST(SettleOfRanks, AreMergedAtOnePlaceAlone) {
  if (everyone().size() == 1) GTEST_SKIP() << "one rank has no others";
  Loader loader(everyone(), counting(100), {.global_batch_size = 12, .settle = Settle::by_hand});
  ASSERT_TRUE(loader.next());
  loader.again();
  if (is_last()) ASSERT_TRUE(loader.next());
  EXPECT_ERROR(loader.merge(everyone()), mismatch, {"position"});
  if (!is_last()) ASSERT_TRUE(loader.next());
  loader.merge(everyone());  // nothing was lost by what failed
  const auto again = loader.next();
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->is_again());
  EXPECT_EQ(again->global_real(), 12);
  EXPECT_ERROR(loader.merge(Communicator()), invalid_argument, {"rank 0 of 1"});
}

TEST(SettleOfRanks, AreNotSavedAtDifferentPlaces) {
  if (everyone().size() == 1) GTEST_SKIP() << "one rank has no others";
  const SharedDirectory directory;
  CheckpointDirectory checkpoints(everyone(), directory.path());
  Loader loader(everyone(), counting(100), {.global_batch_size = 12, .settle = Settle::by_hand});
  const auto batch = loader.next();
  if (is_last()) ASSERT_TRUE(loader.next());
  EXPECT_ERROR(checkpoints.save_all(1, loader), mismatch, {"position"});
  EXPECT_FALSE(checkpoints.latest());
  if (!is_last()) ASSERT_TRUE(loader.next());
  loader.settle(*batch);
  checkpoints.save_all(1, loader);
  Loader other(counting(100), {.global_batch_size = 12}, World{});
  restore(other, *checkpoints.latest());
  EXPECT_EQ((*other.next()).start(), batch->end());  // nobody had touched the second
}

TEST(SettleOfRanks, ListTogetherWhatTheyDroppedInAnyWorld) {
  const LoaderOptions options{.global_batch_size = 12, .settle = Settle::by_hand};
  const SharedDirectory directory;
  CheckpointDirectory checkpoints(everyone(), directory.path());
  Loader loader(everyone(), counting(100), options);
  const auto batch = loader.next();
  const auto reason = fmt::format("stale on {}", everyone().rank());
  loader.drop(*batch, reason);
  checkpoints.save_all(1, loader);
  restore(loader, *checkpoints.latest());
  checkpoints.save_all(2, loader);  // what was restored goes on
  Numbers dropped = all_of_ranks(everyone(), ids_of(*batch));
  std::ranges::sort(dropped);
  for (const int size : {1, 2, 5}) {
    Numbers listed;
    for (int rank = 0; rank < size; ++rank) {
      Loader part(counting(100), options, World{rank, size});
      restore(part, *checkpoints.latest());
      const DroppedSamples all = part.dropped();
      EXPECT_EQ(all.counts.at(reason), batch->real());
      EXPECT_LE(std::ssize(all.samples), (12 + size - 1) / size);
      for (const auto& sample : all.samples) {
        EXPECT_TRUE(all.counts.contains(sample.error));
        listed.push_back(sample.id.value);
      }
    }
    std::ranges::sort(listed);
    EXPECT_EQ(listed, dropped) << "of " << size;
  }
}

}  // namespace rota::test::settle_ranks_test
