// Sources of some samples of another one, and of several side by side.

#include "source/numbered_rows.hpp"
#include "source/reading.hpp"

namespace rota::test::select_test {

using Made = std::shared_ptr<const Source>;

// Other fields than those of `counting`: "length" is the id modulo 5, "line" as many bytes of the id plus 1.
std::shared_ptr<ToldSource> lines(std::int64_t size) {
  auto source = told(size, {{.name = "line", .dtype = DType::uint8, .shape = {2}, .ragged = true},
                            {.name = "length", .dtype = DType::int64}});
  source->place = "line-";
  source->rows_of = [](SampleId id, std::size_t) { return id.value % 5; };
  source->fill = [](SampleId id, std::size_t field, std::int64_t, std::span<std::byte> to) {
    const std::int64_t length = id.value % 5;
    if (field == 0) std::ranges::fill(to, static_cast<std::byte>(id.value + 1));
    if (field == 1) std::memcpy(to.data(), &length, sizeof(length));
  };
  return source;
}

void expect_lines(const Samples& samples, std::size_t field, std::size_t i, std::int64_t id) {
  const auto bytes = static_cast<std::size_t>(2 * (id % 5));
  EXPECT_EQ(samples.sample(field, i), std::string(bytes, static_cast<char>(id + 1)));
  EXPECT_THAT(samples.values<std::int64_t>(field + 1, i), ElementsAre(id % 5));
}

// Samples at random are those that `naive` lists, of `counting`, or with `is_zipped` of that and of `lines`.
void expect_samples(const Source& source, const Numbers& naive, bool is_zipped, std::mt19937_64& random) {
  ASSERT_EQ(source.size(), std::ssize(naive));
  const Ids wanted = naive.empty() ? Ids() : random_ids(source, 50, random);
  const Samples samples(source, wanted);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::int64_t id = naive[static_cast<std::size_t>(wanted[i].value)];
    EXPECT_THAT(samples.values<std::int64_t>(0, i), ElementsAre(id, id));
    EXPECT_EQ(samples.sample(1, i), std::string(static_cast<std::size_t>(id % 7), static_cast<char>(id)));
    if (is_zipped) expect_lines(samples, 2, i, id);
    EXPECT_EQ(source.where(wanted[i]),
              is_zipped ? fmt::format("place-{0} and line-{0}", id) : fmt::format("place-{}", id));
  }
  EXPECT_EQ(source.where({source.size()}), "");
  EXPECT_ERROR(Samples(source, {{source.size()}}), out_of_range);
  EXPECT_ERROR(Samples(source, {{-1}}), out_of_range);
}

TEST(Select, AndAllThatIsMadeOfItReadsWhatANaiveListSays) {
  for_seeds(60, [](std::uint64_t, std::mt19937_64& random) {
    const std::int64_t size = draw(random, 1, 300);
    const bool is_zipped = draw(random, 0, 1) == 1;
    Made source = is_zipped ? zip({counting(size), lines(size)}) : counting(size);
    Numbers naive = numbers_from(0, size);
    for (std::int64_t steps = draw(random, 1, 4); steps > 0; --steps) {
      const std::int64_t n = draw(random, 0, source->size());
      const std::int64_t kind = draw(random, 0, 3);
      if (kind == 0) {
        const Ids wanted =
            naive.empty() ? Ids() : random_ids(*source, static_cast<std::size_t>(2 * n), random);
        Numbers chosen;
        for (const SampleId id : wanted) chosen.push_back(naive[static_cast<std::size_t>(id.value)]);
        source = select(source, wanted);
        naive = chosen;
      } else {
        const Ids gone =
            kind == 3 && !naive.empty() ? random_ids(*source, static_cast<std::size_t>(n), random) : Ids();
        source = kind == 1 ? take(source, n) : kind == 2 ? skip_first(source, n) : without(source, gone);
        Numbers left;
        for (std::int64_t i = kind == 2 ? n : 0; i < (kind == 1 ? n : std::ssize(naive)); ++i)
          if (std::ranges::count(gone, SampleId{i}) == 0) left.push_back(naive[static_cast<std::size_t>(i)]);
        naive = left;
      }
    }
    expect_samples(*source, naive, is_zipped, random);
  });
}

TEST(Select, IsReadWholeByAnyLoaderBadSamplesAsideAndInAMixture) {
  const auto source = faulty(10, true);
  source->corrupt = {3};
  const auto chosen = select(source, ids({3, 1, 3, 7, 1, 1, 9}));
  for (const Shuffle shuffle : {Shuffle::none, Shuffle::within, Shuffle::global, Shuffle::block}) {
    const LoaderOptions options{.global_batch_size = 4,
                                .shards = 2,
                                .shuffle = shuffle,
                                .block = {.samples = 2},
                                .workers = 2,
                                .bad_samples = kSkip};
    Loader alone(chosen, options);
    Loader mixed(Mixture{.datasets = {{chosen, 1}}}, options);
    for (Loader* const loader : {&alone, &mixed}) {
      Numbers values;
      while (const auto batch = loader->next()) {
        const auto x = batch->tensor("x").as<std::int64_t>();
        for (std::size_t i = 0; i < x.size(); ++i)
          if (batch->kinds()[i] == SlotKind::sample) values.push_back(x[i] - 1);
      }
      std::ranges::sort(values);
      EXPECT_THAT(values, ElementsAre(1, 1, 1, 7, 9));
      EXPECT_EQ(loader->skipped().count, 2);
    }
  }
}

TEST(Select, TellsOrdersRangesAndSourcesApartByFingerprint) {
  const Made ten = counting(10);
  const std::vector<Made> all{ten,
                              select(ten, ids({1, 2})),
                              select(ten, ids({2, 1})),
                              select(ten, {}),
                              select(counting(11), ids({1, 2})),
                              take(ten, 2),
                              skip_first(ten, 2),
                              skip_first(take(ten, 4), 2),
                              without(ten, ids({1, 2})),
                              without(ten, ids({1, 3})),
                              zip({ten}),
                              zip({ten, lines(10)}),
                              zip({lines(10), ten})};
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t k = 0; k < i; ++k) EXPECT_NE(all[i]->fingerprint(), all[k]->fingerprint()) << i << k;
  EXPECT_EQ(select(ten, ids({1, 2}))->fingerprint(), all[1]->fingerprint());
  EXPECT_EQ(take(ten, 2)->fingerprint(), all[5]->fingerprint());
}

TEST(Select, RefusesSamplesThatThereAreNot) {
  EXPECT_ERROR(select(nullptr, {}), invalid_argument, {"null pointer"});
  EXPECT_ERROR(select(counting(10), ids({9, 0, 10, -1})), out_of_range, {"ids[2] is 10", "10 samples"});
  EXPECT_ERROR(select(counting(10), ids({-4})), out_of_range, {"ids[0] is -4"});
  EXPECT_ERROR(without(counting(10), ids({3, 10})), out_of_range, {"ids[1] is 10"});
  EXPECT_ERROR(take(counting(10), 11), out_of_range, {"take the first 11", "has 10"});
  EXPECT_ERROR(skip_first(counting(10), -1), out_of_range, {"skip the first -1", "has 10"});
}

TEST(Zip, RefusesOtherSizesAndFieldsOfOneName) {
  EXPECT_ERROR(zip({}), invalid_argument, {"one or more"});
  EXPECT_ERROR(zip({counting(3), nullptr}), invalid_argument, {"null pointer"});
  EXPECT_ERROR(zip({counting(3), lines(4)}), mismatch, {"3 samples", "number 1 has 4"});
  EXPECT_ERROR(zip({lines(3), counting(3), told(3)}), invalid_argument, {"\"x\" int64", "different names"});
}

TEST(Zip, ReadsABatchOfEachSourceAtOnce) {
  const auto source = std::make_shared<NumberedRows>(20);
  int calls = 0;
  struct Counted final : SourceAdaptor {
    Counted(Made inner, int& calls) : SourceAdaptor(std::move(inner)), calls_(calls) {}
    void read(std::span<const SampleId> ids, const BatchView& out) const override {
      ++calls_;
      inner().read(ids, out);
    }
    std::unique_ptr<const Source> wrap(Made /*inner*/) const override { return nullptr; }
    int& calls_;
  };
  const auto zipped = zip({std::make_shared<Counted>(source, calls), lines(20)});
  const Samples samples(*zipped, ids({7, 7, 19}), false);
  EXPECT_EQ(calls, 1);
  expect_lines(samples, 2, 1, 7);
}

// ---- what is passed on ----

TEST(TakeAndZip, KnowWherePartsAndUnitsEnd) {
  const auto rows = std::make_shared<NumberedRows>(Numbers{5, 0, 3, 4});
  EXPECT_THAT(take(rows, 7)->part_sizes(), ElementsAre(5, 2));
  EXPECT_THAT(skip_first(take(rows, 9), 2)->part_sizes(), ElementsAre(3, 3, 1));
  EXPECT_THAT(select(rows, ids({1, 2}))->part_sizes(), IsEmpty());
  EXPECT_THAT(without(rows, ids({4, 0, 5, 6, 7, 0}))->part_sizes(), ElementsAre(3, 4));
  EXPECT_THAT(zip({rows, lines(12)})->part_sizes(), ElementsAre(5, 3, 4));
  const auto others = lines(12);
  others->parts = {2, 6, 4};
  EXPECT_THAT(zip({rows, others})->part_sizes(), ElementsAre(2, 3, 3, 4));
  others->lengths = {2, 10};
  EXPECT_THAT(zip({rows, others})->shard_lengths(2), ElementsAre(2, 10));
  EXPECT_THAT(take(others, 11)->shard_lengths(2), ElementsAre(2, 9));
  EXPECT_THAT(take(rows, 11)->shard_lengths(2), IsEmpty());
  EXPECT_EQ(skip_first(rows, 4)->will_read({3}, 2), 702);
  EXPECT_EQ(zip({rows, others})->will_read({3}, 2), 302);
}

TEST(TakeAndZip, PassOnTheFutureAndSharedFilesAsSelectDoesNot) {
  Numbers told;
  const auto source = counting(20);
  source->on_plan = [&](std::int64_t) { return std::make_unique<WritingPlan>(*source, told); };
  const auto expect = [&](const Made& made, const Numbers& wanted, Sharing sharing, std::int64_t bytes) {
    told.clear();
    const auto plan = PlannedSource::plan_of(*made);
    EXPECT_EQ(plan->samples_ahead(), 9);
    plan->tell(ids({2, 0, 2}));
    EXPECT_EQ(told, wanted);
    EXPECT_EQ(plan->sharing(), sharing);
    EXPECT_EQ(plan->bring({.begin = 1, .end = 3}, true).bytes, bytes);
  };
  expect(select(source, ids({5, 5, 19})), {19, 5, 19}, Sharing::all_over, 0);
  expect(take(source, 3), {2, 0, 2}, Sharing::in_few, 103);
  expect(skip_first(source, 4), {6, 4, 6}, Sharing::in_few, 507);
  expect(without(source, ids({1, 5, 3, 0})), {6, 2, 6}, Sharing::in_few, 407);
  expect(zip({lines(20), source}), {2, 0, 2}, Sharing::in_few, 103);
  expect(zip({lines(3), select(source, ids({5, 5, 19}))}), {19, 5, 19}, Sharing::all_over, 0);
}

}  // namespace rota::test::select_test
