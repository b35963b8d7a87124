#include "loader/course.hpp"
#include "messages.hpp"

namespace rota::test::resume_test {

class Resume : public Test {
 protected:
  static constexpr std::int64_t kSamples = 100;

  Loader make() { return Loader(source_, options_); }

  void save_loader(const Loader& loader) { checkpoints_->save_all(loader.position().step, loader); }

  Checkpoints checkpoints_;
  std::shared_ptr<const Source> source_ = counting(kSamples);
  LoaderOptions options_{
      .global_batch_size = 7, .shards = 9, .seed = 3, .tail = Tail::partial, .epochs = 2, .workers = 1};
};

TEST_F(Resume, GoesOnExactlyFromAnyStepOnceOrTwice) {
  Loader whole = make();
  const auto all = rest_of(whole);
  Loader walker = make();
  for (std::size_t read = 0;;) {
    save_loader(walker);
    for (int time = 0; time < 2; ++time) {
      Loader resumed = make();
      const auto checkpoint = checkpoints_->latest();
      restore(resumed, *checkpoint);
      restore(resumed, *checkpoint);
      EXPECT_EQ(resumed.position(), walker.position());
      save_loader(resumed);  // right after a restore
      EXPECT_EQ(rest_of(resumed), Numbers(all.begin() + static_cast<std::ptrdiff_t>(read), all.end()));
    }
    const auto batch = walker.next();
    if (!batch) break;
    read += static_cast<std::size_t>(batch->size());
  }
}

TEST_F(Resume, SavesSeveralLoadersByTheirNames) {
  Loader train = make();
  const Loader valid = make();
  for (int k = 0; k < 3; ++k) (void)train.next();
  EXPECT_ERROR(checkpoints_->save_all(1, train, valid), invalid_argument,
               {"loader/main", "a name of its own"});
  checkpoints_->save_all(1, named("train", train), named("valid", valid));
  Loader resumed = make();
  Loader other = make();
  checkpoints_->restore_all(named("valid", other), named("train", resumed));
  EXPECT_EQ(resumed.position(), train.position());
  EXPECT_EQ(other.position(), Position{});
}

/// Notes what it is restored from.
struct Noting {
  void save(Snapshot& snapshot) const { snapshot.blob("other", "x"); }
  void restore(const Checkpoint& checkpoint) {
    restored.push_back(checkpoint.info().serial);
    if (fails) throw std::runtime_error("the user's own");
  }
  Numbers restored;
  bool fails = false;
};

TEST_F(Resume, GoesBackPastALoaderThatIsCorruptInItselfAndRestoresAllStatesAgain) {
  Loader loader = make();
  Noting other;
  checkpoints_->save_all(0, other, loader);
  const Numbers cursors(18);
  (void)loader.next();
  Snapshot snapshot;
  other.save(snapshot);
  snapshot.tensor("loader/main/cursors", {2}, 9, cursors);
  snapshot.blob("loader/main/state", state(loader));
  checkpoints_->save(1, snapshot);
  Loader resumed = make();
  const SinkMessages told;
  EXPECT_EQ(checkpoints_->restore_all(other, resumed)->info().serial, 0);
  EXPECT_THAT(told.lines,
              ElementsAre(AllOf(HasSubstr("checkpoint-000000000000.h5, for checkpoint-000000000001.h5"),
                                HasSubstr("its cursors are not those"))));
  EXPECT_THAT(other.restored, ElementsAre(1, 0));
  EXPECT_EQ(resumed.position(), Position{});
  ASSERT_THAT(checkpoints_->rejected(), SizeIs(1));
  EXPECT_THAT(checkpoints_->rejected()[0].reason,
              HasSubstr("its cursors are not those of epoch 0, sample 7"));
}

TEST_F(Resume, GoesNotBackPastAnyOtherError) {
  Loader loader = make();
  Noting other;
  for (int step = 0; step < 2; ++step) checkpoints_->save_all(step, other, loader);
  options_.seed = 4;
  Loader another = make();
  EXPECT_ERROR(checkpoints_->restore_all(other, another), mismatch, {"the seed differs"});
  other.fails = true;
  EXPECT_ERROR(checkpoints_->restore_all(other, loader), callback, {"the user's own"});
  EXPECT_THAT(other.restored, ElementsAre(1, 1));
  EXPECT_THAT(checkpoints_->rejected(), IsEmpty());
}

TEST_F(Resume, TakesAnotherBatchSizeTailAndNumberOfWorkers) {
  Loader saved = make();
  Numbers seen;
  for (int k = 0; k < 4; ++k) {
    const auto batch = saved.next();
    std::ranges::copy(ids_of(*batch), std::back_inserter(seen));
  }
  save_loader(saved);
  options_.global_batch_size = 11;
  options_.tail = Tail::carry;
  options_.workers = 3;
  options_.epochs = 1;
  Loader resumed = make();
  restore(resumed, *checkpoints_->latest());
  std::ranges::copy(rest_of(resumed), std::back_inserter(seen));
  EXPECT_THAT(seen, UnorderedElementsAreArray(numbers_from(0, kSamples)));
}

}  // namespace rota::test::resume_test
