#include "loader/course.hpp"

namespace rota::test::loader_errors_test {

class LoaderErrors : public TestWithParam<int> {
 protected:
  std::shared_ptr<ToldSource> source_ = counting(100);
  LoaderOptions options_{
      .global_batch_size = 10, .shards = 4, .shuffle = Shuffle::none, .workers = GetParam()};
};

TEST_P(LoaderErrors, ArriveInTheirBatchsPlaceWithSampleAndFile) {
  std::int64_t bad = -1;
  {
    Loader probe(source_, options_);
    for (int k = 0; k < 3; ++k) (void)probe.next();
    const auto batch = probe.next();
    bad = batch->ids()[6].value;
  }
  source_->on_read = [bad](SampleId id) {
    if (id.value == bad) throw Error(corrupt, "the bytes are wrong");
  };
  Loader loader(source_, options_);
  for (int k = 0; k < 3; ++k) ASSERT_TRUE(loader.next());
  EXPECT_EQ(error_of([&] { (void)loader.next(); })->what(),
            fmt::format("read sample {0} (place-{0}): the bytes are wrong", bad));
  EXPECT_EQ(loader.position().consumed, 30);
}

TEST_P(LoaderErrors, MayPassSoThatTheSameBatchIsTriedAgain) {
  std::atomic<bool> is_broken = true;
  source_->on_read = [&](SampleId id) {
    if (id.value == 0 && is_broken) throw std::runtime_error("not now");
  };
  Loader loader(source_, options_);
  for (int time = 0; time < 2; ++time) {
    EXPECT_ERROR(loader.next(), callback, {"read sample 0 (place-0): not now"});
  }
  is_broken = false;
  EXPECT_THAT(rest_of(loader), SizeIs(100));
}

TEST_P(LoaderErrors, KeepWhatTheUsersCodeThrewAsTheirCause) {
  struct Own {
    int number;
  };
  std::atomic<bool> is_own = true;
  source_->on_read = [&](SampleId id) {
    if (!is_own) throw Error(corrupt, "its own");
    if (id.value == 60) throw Own{7};
  };
  Loader loader(source_, options_);
  const auto error = error_of([&] { run_out(loader); });
  try {
    std::rethrow_exception(error->cause());
  } catch (const Own& own) {
    EXPECT_EQ(own.number, 7);
  }
  is_own = false;
  EXPECT_EQ(error_of([&] { (void)loader.next(); })->cause(), nullptr);
}

TEST_P(LoaderErrors, OfSizesNameTheSampleToo) {
  source_->on_rows = [](SampleId id) {
    if (id.value == 60) throw std::runtime_error("cannot ask");
  };
  for (const bool is_transformed : {false, true}) {
    if (is_transformed) {
      options_.transform = {.apply = [](const TransformContext&, const SampleView&, SampleOutput&) {},
                            .fields = {{.name = "y", .dtype = DType::int8}}};
    }
    Loader loader(source_, options_);
    EXPECT_ERROR(run_out(loader), callback, {"size sample 60 (place-60): cannot ask"});
  }
}

TEST_P(LoaderErrors, AreThoseOfTheFirstSlotWhateverTheThreadsTiming) {
  source_->on_read = [](SampleId id) { throw std::runtime_error("no " + std::to_string(id.value)); };
  Loader loader(source_, options_);
  const auto first = error_of([&] { (void)loader.next(); });
  for (int time = 0; time < 100; ++time) {
    EXPECT_ERROR(loader.next(), callback, {first->what()});
  }
}

TEST_P(LoaderErrors, DoNotKeepALoaderFromDying) {
  source_->on_read = [](SampleId /*id*/) { throw std::runtime_error("always"); };
  Loader loader(source_, options_);
}

INSTANTIATE_TEST_SUITE_P(Workers, LoaderErrors, Values(0, 1, 3));

TEST(Loader, RefusesAWorldThatCannotBe) {
  EXPECT_ERROR(Loader(counting(10), {}, {.rank = 2, .size = 2}), invalid_argument, {"rank 2 of 2"});
}

}  // namespace rota::test::loader_errors_test
