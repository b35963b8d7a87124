#include "source/told_source.hpp"
#include "test.hpp"

namespace rota::test::loader_errors_test {

template <typename Work>
std::string message_of(Work work, ErrorCode code) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "nothing was thrown";
}

class LoaderErrors : public ::testing::TestWithParam<int> {
 protected:
  std::shared_ptr<ToldSource> source_ = counting(100);
  LoaderOptions options_{
      .global_batch_size = 10, .shards = 4, .shuffle = Shuffle::none, .workers = GetParam()};
};

TEST_P(LoaderErrors, ArriveInTheirBatchsPlaceWithSampleAndFile) {
  std::int64_t bad = -1;
  {
    Loader probe(source_, options_);
    for (int k = 0; k < 3; ++k) static_cast<void>(probe.next());
    const auto batch = probe.next();
    bad = batch->ids()[6].value;
  }
  source_->on_read = [bad](SampleId id) {
    if (id.value == bad) throw Error(ErrorCode::corrupt, "the bytes are wrong");
  };
  Loader loader(source_, options_);
  for (int k = 0; k < 3; ++k) ASSERT_TRUE(loader.next());
  const auto text = message_of([&] { loader.next(); }, ErrorCode::corrupt);
  EXPECT_EQ(text, "read sample " + std::to_string(bad) + " (place-" + std::to_string(bad) +
                      "): the bytes are wrong");
  EXPECT_EQ(loader.position().consumed, 30);
}

TEST_P(LoaderErrors, MayPassSoThatTheSameBatchIsTriedAgain) {
  std::atomic<bool> is_broken = true;
  source_->on_read = [&](SampleId id) {
    if (id.value == 0 && is_broken) throw std::runtime_error("not now");
  };
  Loader loader(source_, options_);
  EXPECT_THAT(message_of([&] { loader.next(); }, ErrorCode::callback),
              HasSubstr("read sample 0 (place-0): not now"));
  EXPECT_THAT(message_of([&] { loader.next(); }, ErrorCode::callback), HasSubstr("not now"));
  is_broken = false;
  std::int64_t samples = 0;
  for (const Batch& batch : loader) samples += batch.size();
  EXPECT_EQ(samples, 100);
}

TEST_P(LoaderErrors, OfSizesNameTheSampleToo) {
  source_->on_rows = [](SampleId id) {
    if (id.value == 60) throw std::runtime_error("cannot ask");
  };
  const auto all = [](Loader& loader) {
    while (loader.next()) {
    }
  };
  Loader loader(source_, options_);
  EXPECT_EQ(message_of([&] { all(loader); }, ErrorCode::callback), "size sample 60 (place-60): cannot ask");
  options_.transform = {.apply = [](const TransformContext&, const SampleView&, SampleOutput&) {},
                        .fields = {{.name = "y", .dtype = DType::int8}}};
  Loader transforming(source_, options_);
  EXPECT_EQ(message_of([&] { all(transforming); }, ErrorCode::callback),
            "size sample 60 (place-60): cannot ask");
}

TEST_P(LoaderErrors, AreThoseOfTheFirstSlotWhateverTheThreadsTiming) {
  source_->on_read = [](SampleId id) { throw std::runtime_error("no " + std::to_string(id.value)); };
  Loader loader(source_, options_);
  const auto first = message_of([&] { loader.next(); }, ErrorCode::callback);
  for (int time = 0; time < 100; ++time) {
    EXPECT_EQ(message_of([&] { loader.next(); }, ErrorCode::callback), first);
  }
}

TEST_P(LoaderErrors, DoNotKeepALoaderFromDying) {
  source_->on_read = [](SampleId /*id*/) { throw std::runtime_error("always"); };
  Loader loader(source_, options_);
}

INSTANTIATE_TEST_SUITE_P(Workers, LoaderErrors, ::testing::Values(0, 1, 3));

TEST(LoaderOptions, NameWhatIsWrongWithThem) {
  const auto source = counting(10);
  const auto message = [&](const LoaderOptions& options) {
    return message_of([&] { Loader(source, options); }, ErrorCode::invalid_argument);
  };
  EXPECT_THAT(message({.global_batch_size = 0}),
              HasSubstr("global_batch_size is 0; it must be 1 to 2^31 - 1"));
  EXPECT_THAT(message({.shards = 0}), HasSubstr("shards is 0"));
  EXPECT_THAT(message({.interleave = -1}), HasSubstr("interleave is -1"));
  EXPECT_THAT(message({.block = {.samples = 0}}), HasSubstr("block.samples is 0"));
  EXPECT_THAT(message({.epochs = -1}), HasSubstr("epochs is -1"));
  EXPECT_THAT(message({.workers = -1}), HasSubstr("workers is -1"));
  EXPECT_THAT(message({.read_ahead_batches = 0}), HasSubstr("read_ahead_batches is 0"));
  EXPECT_THAT(message({.read_ahead_batches = 1 << 20}), HasSubstr("read_ahead_batches is 1048576"));
  EXPECT_THAT(message({.read_ahead_bytes = -1}), HasSubstr("read_ahead_bytes is -1"));
}

TEST(LoaderOptions, MustSuitTheSourceAndTheWorld) {
  const auto split = counting(10, std::vector<std::int64_t>{5, 4});
  EXPECT_THAT(message_of([&] { Loader(split, {.shards = 2}); }, ErrorCode::callback),
              HasSubstr("its 10 samples are in 2 shards, of which all together have 9"));
  const auto source = counting(10);
  EXPECT_THAT(message_of([&] { Loader(source, {}, {.rank = 2, .size = 2}); }, ErrorCode::invalid_argument),
              HasSubstr("rank 2 of 2"));
  EXPECT_THAT(message_of([&] { Loader(nullptr, {}); }, ErrorCode::invalid_argument), HasSubstr("no source"));
}

std::shared_ptr<const Source> of_rows(std::int64_t size, std::int64_t rows) {
  const auto source = counting(size);
  source->rows_of = [rows](SampleId, std::size_t) { return rows; };
  return source;
}

TEST(Loader, RefusesABatchOfMoreThanATensorMayHave) {
  Loader loader(of_rows(40, std::int64_t{1} << 46), {.global_batch_size = 40, .workers = 0});
  EXPECT_THAT(message_of([&] { loader.next(); }, ErrorCode::invalid_argument),
              HasSubstr("lower global_batch_size"));
}

TEST(Loader, RefusesSizesBeyondAllMemory) {
  Loader loader(of_rows(10, std::numeric_limits<std::int64_t>::max() / 2), {.workers = 0});
  EXPECT_THAT(message_of([&] { loader.next(); }, ErrorCode::callback), HasSubstr("that cannot be"));
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
  EXPECT_THAT(message_of([&] { loader.cursors(3, cursors); }, ErrorCode::out_of_range),
              HasSubstr("there are 4"));
}

TEST(Loader, RefusesToSeekOutsideTheRun) {
  Loader loader(counting(10), {});
  EXPECT_THAT(
      message_of([&] { loader.seek({.epoch = 0, .consumed = 11, .step = 0}); }, ErrorCode::out_of_range),
      HasSubstr("an epoch has 10 samples"));
  const auto batch = loader.next();
  EXPECT_THAT(message_of([&] { static_cast<void>(batch->tensor("y")); }, ErrorCode::not_found),
              HasSubstr("\"x\", \"text\""));
}

}  // namespace rota::test::loader_errors_test
