#include "loader/course.hpp"

namespace rota::test::transform_test {

TEST(Transform, ChangesTheSourcesFieldsInPlace) {
  const Transform transform{
      .apply = [](const TransformContext& context, const SampleView& /*in*/, SampleOutput& out) {
        EXPECT_EQ(out.as<std::int64_t>(0)[0], context.id.value);
        out.as<std::int64_t>(0)[0] += 1000;
      }};
  Loader loader(counting(50), {.global_batch_size = 8, .workers = 2, .transform = transform});
  for (const Batch& batch : loader) {
    for (std::int64_t i = 0; i < batch.size(); ++i) {
      const auto x = batch.tensor(0).as<std::int64_t>().subspan(static_cast<std::size_t>(2 * i), 2);
      EXPECT_EQ(x[0], x[1] + 1000);
    }
  }
}

TEST(Transform, MakesFieldsOfItsOwnFromRaggedOnes) {
  const Transform transform{
      .apply = [](const TransformContext& /*context*/, const SampleView& in,
                  SampleOutput& out) { out.as<double>(0)[0] = static_cast<double>(in.bytes[1].size()); },
      .fields = {{.name = "length", .dtype = DType::float64}}};
  for (const int workers : {0, 2}) {
    Loader loader(counting(50), {.global_batch_size = 8, .workers = workers, .transform = transform});
    for (const Batch& batch : loader) {
      for (std::size_t i = 0; i < batch.ids().size(); ++i) {
        EXPECT_EQ(batch.tensor("length").as<double>()[i], static_cast<double>(batch.ids()[i].value % 7));
      }
    }
  }
}

/// Epoch and id of every sample, with the key it was given.
std::map<std::pair<std::int64_t, std::int64_t>, std::uint64_t> keys(int ranks, int workers,
                                                                    std::uint64_t seed) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::uint64_t> keys;
  std::mutex mutex;
  const Transform transform{.apply = [&](const TransformContext& context, const SampleView&, SampleOutput&) {
    const std::lock_guard lock(mutex);
    keys[{context.epoch, context.id.value}] = context.key;
  }};
  for (int r = 0; r < ranks; ++r) {
    Loader loader(counting(40),
                  {.global_batch_size = 7,
                   .seed = seed,
                   .tail = Tail::carry,
                   .epochs = 3,
                   .workers = workers,
                   .transform = transform},
                  {.rank = r, .size = ranks});
    run_out(loader);
  }
  return keys;
}

TEST(Transform, IsGivenTheSameKeyForASampleAtAnyWorldAndAnotherInEveryEpoch) {
  const auto alone = keys(1, 0, 5);
  EXPECT_EQ(alone.size(), 120U);
  EXPECT_EQ(keys(3, 2, 5), alone);
  EXPECT_NE(keys(1, 0, 6), alone);
  std::set<std::uint64_t> distinct;
  for (const auto& [sample, key] : alone) distinct.insert(key);
  EXPECT_EQ(distinct.size(), 120U);
}

TEST(Transform, ThrowsInItsBatchsPlaceWithTheSamplesName) {
  const Transform transform{.apply = [](const TransformContext& context, const SampleView&, SampleOutput&) {
    if (context.id.value == 13) throw std::runtime_error("unlucky");
  }};
  for (const int workers : {0, 2}) {
    LoaderOptions options = in_order(5, workers);
    options.transform = transform;
    Loader loader(counting(50), options);
    EXPECT_TRUE(loader.next());
    EXPECT_TRUE(loader.next());
    EXPECT_ERROR(loader.next(), callback, {"transform sample 13 (place-13): unlucky"});
  }
}

// ---- ragged fields ----

const Field kWords{.name = "words", .dtype = DType::int32, .shape = {2}, .ragged = true};
const Field kId{.name = "id", .dtype = DType::int64};
const Field kLetters{.name = "letters", .dtype = DType::uint8, .ragged = true};

/// How many words sample `id` becomes, from none to more than a batch holds otherwise.
std::int64_t words_of(SampleId id) { return id.value % 11 == 3 ? 500 : id.value % 5; }

/// Words (id, number), the id, and one letter for each two words.
Transform make_words() {
  return {.apply =
              [](const TransformContext& context, const SampleView& in, SampleOutput& out) {
                const SampleId id = context.id;
                EXPECT_EQ(in.as<std::int64_t>(0)[0], id.value);
                EXPECT_THAT(out.bytes(0), IsEmpty());
                for (std::int64_t n = 0; n < words_of(id); ++n) {  // grows word by word
                  const auto words = out.resize<std::int32_t>(0, n + 1);
                  words[words.size() - 2] = static_cast<std::int32_t>(id.value);
                  words[words.size() - 1] = static_cast<std::int32_t>(n);
                }
                out.as<std::int64_t>(1)[0] = id.value;
                std::ranges::fill(out.resize(2, 1000), static_cast<std::byte>(id.value));  // and shrinks
                out.resize(2, words_of(id) / 2);
              },
          .fields = {kWords, kId, kLetters}};
}

void expect_words(const Batch& batch) {
  const Tensor words = batch.tensor("words");
  const Tensor letters = batch.tensor("letters");
  for (std::size_t i = 0; i < batch.ids().size(); ++i) {
    const SampleId id = batch.ids()[i];
    EXPECT_EQ(batch.tensor("id").as<std::int64_t>()[i], id.value);
    ASSERT_EQ(words.offsets[i + 1] - words.offsets[i], words_of(id)) << id.value;
    for (std::int64_t n = 0; n < words_of(id); ++n) {
      const auto at = static_cast<std::size_t>(2 * (words.offsets[i] + n));
      ASSERT_EQ(words.as<std::int32_t>()[at], id.value);
      ASSERT_EQ(words.as<std::int32_t>()[at + 1], n);
    }
    ASSERT_EQ(letters.offsets[i + 1] - letters.offsets[i], words_of(id) / 2);
    for (const std::byte letter : batch.bytes(2, static_cast<std::int64_t>(i))) {
      ASSERT_EQ(letter, static_cast<std::byte>(id.value));
    }
  }
}

class MadeRows : public TestWithParam<std::tuple<int, Split>> {
 protected:
  LoaderOptions options() const {
    const auto [workers, split] = GetParam();
    return {.global_batch_size = 17,
            .shards = 7,
            .seed = 3,
            .tail = Tail::carry,
            .worker_split = split,
            .epochs = 3,
            .workers = workers,
            .transform = make_words()};
  }
  std::shared_ptr<const ToldSource> source_ = counting(100);
};

TEST_P(MadeRows, AreThoseOfEachSampleWhoeverMadeThem) {
  std::int64_t samples = 0;
  for (const int ranks : {1, 3}) {
    for (int r = 0; r < ranks; ++r) {
      Loader loader(source_, options(), {.rank = r, .size = ranks});
      for (const Batch& batch : loader) {
        expect_words(batch);
        samples += batch.size();
      }
    }
  }
  EXPECT_EQ(samples, 2 * 300);
}

TEST_P(MadeRows, CountAsBytesOfTheBatch) {
  Loader loader(source_, options());
  std::int64_t bytes = 0;
  for (const Batch& batch : loader) {
    for (std::size_t f = 0; f < 3; ++f) bytes += std::ssize(batch.tensor(f).bytes);
  }
  EXPECT_EQ(loader.stats().bytes, bytes);
  std::int64_t made = 0;
  for (const LoaderStats::Worker& worker : loader.stats().workers) made += worker.bytes;
  EXPECT_EQ(made, bytes);
}

TEST_P(MadeRows, OfASkippedSampleAreNone) {
  LoaderOptions how = options();
  how.bad_samples.policy = BadSamples::Policy::skip;
  how.transform.apply = [whole = how.transform.apply](const TransformContext& context, const SampleView& in,
                                                      SampleOutput& out) {
    whole(context, in, out);
    if (context.id.value % 4 == 1) throw std::runtime_error("refused when its rows are made");
  };
  Loader loader(source_, how);
  for (const Batch& batch : loader) {
    const Tensor words = batch.tensor("words");
    for (std::size_t i = 0; i < batch.ids().size(); ++i) {
      const SampleId id = batch.ids()[i];
      const bool is_bad = id.value % 4 == 1;
      EXPECT_EQ(batch.kinds()[i], is_bad ? SlotKind::skipped : SlotKind::sample);
      const std::int64_t rows = words.offsets[i + 1] - words.offsets[i];
      ASSERT_EQ(rows, is_bad ? 0 : words_of(id));
      if (rows > 0) {
        ASSERT_EQ(words.as<std::int32_t>()[static_cast<std::size_t>(2 * words.offsets[i])], id.value);
      }
      EXPECT_EQ(batch.tensor("id").as<std::int64_t>()[i], is_bad ? 0 : id.value);
    }
  }
  EXPECT_EQ(loader.skipped().count, 75);
}

INSTANTIATE_TEST_SUITE_P(All, MadeRows,
                         Values(std::tuple(0, Split::by_sample), std::tuple(1, Split::by_sample),
                                std::tuple(3, Split::by_sample), std::tuple(3, Split::by_shard),
                                std::tuple(2, Split::interleaved)),
                         [](const auto& test) {
                           return std::to_string(std::get<0>(test.param)) + "_" +
                                  std::string(to_string(std::get<1>(test.param)));
                         });

/// What a transform that does `work` with its output has thrown.
std::optional<Error> thrown(Fields fields, const std::function<void(SampleOutput&)>& work) {
  const Transform transform{
      .apply = [&](const TransformContext&, const SampleView&, SampleOutput& out) { work(out); },
      .fields = std::move(fields)};
  return error_of([&] { (void)Loader(counting(1), {.workers = 0, .transform = transform}).next(); });
}

TEST(SampleOutput, RefusesRowsThatCannotBe) {
  const auto refused = [](const char* why, ErrorCode code = callback) { return is_error(code, {why}); };
  EXPECT_THAT(thrown({kWords}, [](SampleOutput& out) { out.resize(0, -1); }), refused("-1 rows"));
  EXPECT_THAT(thrown({kWords}, [](SampleOutput& out) { out.resize(0, std::int64_t{1} << 60); }),
              refused("rows of 8 bytes"));
  EXPECT_THAT(thrown({kWords}, [](SampleOutput& out) { out.resize(1, 1); }),
              refused("there are 1", out_of_range));
  EXPECT_THAT(thrown({kWords, kId}, [](SampleOutput& out) { out.resize(1, 1); }),
              refused("\"id\": it is of fixed shape"));
  EXPECT_THAT(thrown({}, [](SampleOutput& out) { out.resize(1, 1); }),
              refused("give the fields of the transform"));
  EXPECT_THAT(thrown({kWords}, [](SampleOutput& out) { out.resize<float>(0, 1); }),
              refused("float32", mismatch));
  EXPECT_FALSE(thrown({kWords, kId}, [](SampleOutput& out) { out.resize(0, 7); }));
}

TEST(ReadAhead, IsBoundByTheLargestBatchThatATransformMade) {
  const Transform transform{
      .apply = [](const TransformContext&, const SampleView&, SampleOutput& out) { out.resize(0, 100'000); },
      .fields = {kLetters}};
  Loader loader(counting(64), {.global_batch_size = 1,
                               .workers = 2,
                               .read_ahead_batches = 32,
                               .read_ahead_bytes = 450'000,
                               .transform = transform});
  for (int step = 0; step < 32; ++step) (void)loader.next();  // by now the first ones are over
  loader.warm_up();
  EXPECT_EQ(loader.stats().ready_batches, 4);
}

}  // namespace rota::test::transform_test
