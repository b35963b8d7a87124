// What is not a bad sample: I/O errors are tried again, all else fails, and there is a limit to bad samples.

#include "loader/course.hpp"

namespace rota::test::read_again_test {

/// Batches of samples 0 to 9, 10 to 19, 20 to 29, with that many workers.
class Skipping : public TestWithParam<int> {
 protected:
  void expect_failure(ErrorCode code, const std::string& text) {
    Loader loader(source_, options_);
    EXPECT_ERROR(loader.next(), code, {text});
    EXPECT_THAT(loader.skipped().samples, IsEmpty());
  }
  /// Of a transform that throws this for sample 7.
  template <typename Exception>
  void expect_failure_of(Exception exception, ErrorCode code) {
    options_.transform.apply = [exception](const TransformContext& context, const SampleView&,
                                           SampleOutput&) {
      if (context.id.value == 7) throw exception;
    };
    expect_failure(code, "transform sample 7 (place-7)");
  }

  std::shared_ptr<ToldSource> source_ = faulty(30, true);
  LoaderOptions options_ = in_order(10, GetParam(), {.policy = BadSamples::Policy::skip, .retry_wait = {}});
};

TEST_P(Skipping, IsForThoseWhoAskForIt) {
  options_.bad_samples.policy = BadSamples::Policy::fail;
  source_->corrupt = {7};
  expect_failure(corrupt, "read sample 7 (place-7): the bytes are wrong");
}

TEST_P(Skipping, DoesNotPassOverWhatATransformDidNotRefuse) {
  expect_failure_of(Error(io, "its own file does not answer"), io);
  expect_failure_of(std::bad_alloc(), callback);
}

TEST_P(Skipping, DoesNotPassOverErrorsThatAreNotOfTheSample) {
  const auto source = counting(30);
  const auto expect = [&](const std::function<void(SampleId)>& fail, ErrorCode code) {
    source->on_read = fail;
    Loader loader(source, options_);
    EXPECT_ERROR(loader.next(), code, {"read sample 0 (place-0)"});
  };
  for (const ErrorCode code : {out_of_range, unsupported, callback, io}) {
    expect([code](SampleId) { throw Error(code, "no"); }, code);
  }
  expect([](SampleId) { throw std::bad_alloc(); }, callback);
  expect([](SampleId) { throw std::runtime_error("no"); }, callback);
}

TEST_P(Skipping, PassesOverFilesThatAreGone) {
  const auto source = counting(30);
  source->on_read = [](SampleId id) {
    if (id.value == 7) throw Error(not_found, "its file is gone");
  };
  Loader loader(source, options_);
  std::int64_t real = 0;
  for (const Batch& batch : loader) real += batch.real();
  EXPECT_EQ(real, 29);
  EXPECT_THAT(loader.skipped().samples.at(0).error, HasSubstr("its file is gone"));
}

TEST_P(Skipping, ReadsAgainWhatDoesNotAnswerAtFirst) {
  options_.bad_samples.io_retries = 3;
  for (const BadSamples::Policy policy : {BadSamples::Policy::fail, BadSamples::Policy::skip}) {
    options_.bad_samples.policy = policy;
    source_ = faulty(30, true);
    source_->io_failures = {{7, 3}, {8, 1}, {25, 2}};
    Loader loader(source_, options_);
    std::int64_t real = 0;
    for (const Batch& batch : loader) real += batch.real();
    EXPECT_EQ(real, 30);
    EXPECT_EQ(source_->tries(7), 4);
    EXPECT_GE(loader.stats().retries, 5);
  }
}

TEST_P(Skipping, GivesUpOnWhatNeverAnswersAndDoesNotSkipIt) {
  for (const int retries : {0, 1, 4}) {
    options_.bad_samples.io_retries = retries;
    source_ = faulty(30, true);
    source_->io_failures = {{7, 1000}};
    expect_failure(io, "read sample 7 (place-7): no answer");
    // Once with others, and then alone: the first time to find out which of them it was.
    EXPECT_EQ(source_->tries(7), 1 + std::max(1, retries));
  }
}

TEST_P(Skipping, DoesNotWaitForAReadThatNobodyWantsAnyMore) {
  if (GetParam() == 0) return;  // then it is next() itself that waits
  options_.bad_samples.retry_wait = 24h;
  source_->io_failures = {{25, 1000}};
  Loader loader(source_, options_);
  EXPECT_TRUE(loader.next());
  while (source_->tries(25) == 0) std::this_thread::yield();
  loader.seek({});
  EXPECT_EQ((*loader.next()).start().consumed, 0);
  while (source_->tries(25) == 1) std::this_thread::yield();
}

TEST_P(Skipping, BeyondTheLimitEndsTheRunOneStepLaterAndForGood) {
  source_->corrupt = {1, 12, 13};
  options_.bad_samples.max_skipped = 2;
  Loader loader(source_, options_);
  EXPECT_TRUE(loader.next());
  EXPECT_TRUE(loader.next());
  const Position before = loader.position();
  for (int time = 0; time < 3; ++time) {
    EXPECT_ERROR(
        loader.next(), corrupt,
        {"3 are skipped, and max_skipped is 2", "sample 1 (place-1) in epoch 0: read: the bytes are wrong"});
  }
  EXPECT_EQ(loader.position(), before);
  options_.bad_samples.max_skipped = 3;
  Loader lenient(source_, options_);
  EXPECT_EQ(std::ranges::distance(lenient), 3) << "a limit may be reached";
}

TEST_P(Skipping, BeyondTheLimitInTheLastBatchIsNotMissed) {
  source_->corrupt = {29};
  options_.bad_samples.max_skipped = 0;
  Loader loader(source_, options_);
  for (int step = 0; step < 3; ++step) EXPECT_TRUE(loader.next());
  EXPECT_ERROR(loader.next(), corrupt, {});
}

TEST_P(Skipping, ListsAThousandAndCountsAll) {
  source_ = faulty(1500, false);
  for (std::int64_t id = 0; id < 1500; ++id) {
    if (id % 10 != 0) source_->corrupt.insert(id);
  }
  options_.bad_samples.max_skipped = 1500;
  Loader loader(source_, options_);
  run_out(loader);
  EXPECT_EQ(loader.skipped().count, 1350);
  EXPECT_THAT(loader.skipped().samples, SizeIs(1000));
}

INSTANTIATE_TEST_SUITE_P(Workers, Skipping, Values(0, 1, 3));

}  // namespace rota::test::read_again_test
