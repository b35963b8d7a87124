#include "loader/course.hpp"
#include "test.hpp"

namespace rota::test::loader_errors_test {

using enum ErrorCode;

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
  EXPECT_EQ(error_of([&] { loader.next(); })->what(),
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
    EXPECT_THAT(error_of([&] { loader.next(); }), is_error(callback, {"read sample 0 (place-0): not now"}));
  }
  is_broken = false;
  EXPECT_THAT(rest_of(loader), SizeIs(100));
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
    EXPECT_THAT(error_of([&] { run_out(loader); }),
                is_error(callback, {"size sample 60 (place-60): cannot ask"}));
  }
}

TEST_P(LoaderErrors, AreThoseOfTheFirstSlotWhateverTheThreadsTiming) {
  source_->on_read = [](SampleId id) { throw std::runtime_error("no " + std::to_string(id.value)); };
  Loader loader(source_, options_);
  const auto first = error_of([&] { loader.next(); });
  for (int time = 0; time < 100; ++time) {
    EXPECT_THAT(error_of([&] { loader.next(); }), is_error(callback, {first->what()}));
  }
}

TEST_P(LoaderErrors, DoNotKeepALoaderFromDying) {
  source_->on_read = [](SampleId /*id*/) { throw std::runtime_error("always"); };
  Loader loader(source_, options_);
}

INSTANTIATE_TEST_SUITE_P(Workers, LoaderErrors, Values(0, 1, 3));

TEST(LoaderOptions, NameWhatIsWrongWithThem) {
  const auto expect = [](const LoaderOptions& options, const std::string& why) {
    EXPECT_THAT(error_of([&] { Loader(counting(10), options); }), is_error(invalid_argument, {why}));
  };
  expect({.global_batch_size = 0}, "global_batch_size is 0; it must be 1 to 2^31 - 1");
  expect({.shards = 0}, "shards is 0");
  expect({.interleave = -1}, "interleave is -1");
  expect({.block = {.samples = 0}}, "block.samples is 0");
  expect({.epochs = -1}, "epochs is -1");
  expect({.workers = -1}, "workers is -1");
  expect({.read_ahead_batches = 0}, "read_ahead_batches is 0");
  expect({.read_ahead_batches = 1 << 20}, "read_ahead_batches is 1048576");
  expect({.read_ahead_bytes = -1}, "read_ahead_bytes is -1");
}

TEST(LoaderOptions, MustSuitTheSourceAndTheWorld) {
  const auto split = counting(10, {5, 4});
  EXPECT_THAT(error_of([&] { Loader(split, {.shards = 2}); }),
              is_error(callback, {"its 10 samples are in 2 shards, of which all together have 9"}));
  const auto source = counting(10);
  EXPECT_THAT(error_of([&] { Loader(source, {}, {.rank = 2, .size = 2}); }),
              is_error(invalid_argument, {"rank 2 of 2"}));
  EXPECT_THAT(error_of([&] { Loader(nullptr, {}); }), is_error(invalid_argument, {"no source"}));
}

std::shared_ptr<const Source> of_rows(std::int64_t size, std::int64_t rows) {
  const auto source = counting(size);
  source->rows_of = [rows](SampleId, std::size_t) { return rows; };
  return source;
}

TEST(Loader, RefusesABatchOfMoreThanATensorMayHave) {
  Loader loader(of_rows(40, std::int64_t{1} << 46), {.global_batch_size = 40, .workers = 0});
  EXPECT_THAT(error_of([&] { loader.next(); }), is_error(invalid_argument, {"lower global_batch_size"}));
}

TEST(Loader, RefusesSizesBeyondAllMemory) {
  Loader loader(of_rows(10, std::numeric_limits<std::int64_t>::max() / 2), {.workers = 0});
  EXPECT_THAT(error_of([&] { loader.next(); }), is_error(callback, {"that cannot be"}));
}

TEST(Batch, IsEmptyWhenMadeOfNothing) {
  const Batch batch;
  EXPECT_EQ(batch.size(), 0);
  EXPECT_TRUE(batch.ids().empty() && batch.kinds().empty() && batch.epochs().empty() &&
              batch.fields().empty());
}

TEST(Loader, RefusesCursorsOfShardsThatThereAreNot) {
  const Loader loader(counting(10), {.shards = 4});
  std::vector<std::int64_t> cursors(4);
  EXPECT_THAT(error_of([&] { loader.cursors(3, cursors); }), is_error(out_of_range, {"there are 4"}));
}

TEST(Loader, RefusesToSeekOutsideTheRun) {
  Loader loader(counting(10), {});
  EXPECT_THAT(error_of([&] { loader.seek({.epoch = 0, .consumed = 11, .step = 0}); }),
              is_error(out_of_range, {"an epoch has 10 samples"}));
  const auto batch = loader.next();
  EXPECT_THAT(error_of([&] { (void)(batch->tensor("y")); }), is_error(not_found, {"\"x\", \"text\""}));
}

}  // namespace rota::test::loader_errors_test
