// Windows that each epoch moves (jitter).

#include "source/numbered_rows.hpp"
#include "source/reading.hpp"

namespace rota::test::window_moves_test {

std::shared_ptr<const Source> over(const Numbers& parts, const WindowOptions& options) {
  return windows(std::make_shared<NumberedRows>(parts), options);
}

void expect_sample(const NaiveWindow& window, std::span<const std::int64_t> x,
                   std::span<const std::byte> is_real) {
  ASSERT_EQ(Numbers(x.begin(), x.end()), window.rows);
  if (!is_real.empty()) ASSERT_EQ(text_of(is_real), window.is_real);
}

WindowOptions random_shape(std::mt19937_64& random) {
  WindowOptions options{.stride = draw(random, 1, 5)};
  options.edges = Edges(draw(random, 0, 1));
  options.jitter = draw(random, 0, 1) == 0 ? draw(random, 1, 3) : draw(random, 1, 40);
  options.seed = random();
  for (std::int64_t offset = -5; offset <= 5; ++offset) {
    if (draw(random, 0, 3) == 0) options.offsets.push_back(offset);
  }
  if (options.offsets.empty() || draw(random, 0, 2) == 0) {
    options.offsets.clear();
    options.length = draw(random, 1, 6);
  }
  return options;
}

// Of random parts, as files or as episodes, read in random batches of mixed epochs.
TEST(WindowMoves, AreThoseOfANaiveListOverAnyPartsShapesAndEpochs) {
  for_seeds(400, [](std::uint64_t seed, std::mt19937_64& random) {
    Numbers parts(static_cast<std::size_t>(draw(random, 1, 4)));
    for (std::int64_t& part : parts) part = draw(random, 0, 20);
    WindowOptions options = random_shape(random);
    if (seed % 4 == 0) options.episodes = parts;
    const std::int64_t epoch = draw(random, 0, 3);
    const auto expected =
        std::array{naive_windows(parts, options, epoch), naive_windows(parts, options, epoch + 1)};
    if (expected[0].empty()) return;
    const auto source = seed % 4 == 0
                            ? over({std::accumulate(parts.begin(), parts.end(), std::int64_t{0})}, options)
                            : over(parts, options);
    ASSERT_EQ(source->size(), std::ssize(expected[0]));
    Ids wanted = random_ids(*source, 20, random);
    if (seed % 2 == 0) std::ranges::sort(wanted, {}, &SampleId::value);
    Numbers epochs(wanted.size());
    for (std::int64_t& one : epochs) one = epoch + draw(random, 0, 3) / 3;
    const auto length = expected[0][0].rows.size();
    Numbers x(wanted.size() * length);
    std::vector<std::byte> y(x.size() * 6);
    std::vector<std::byte> is_real(x.size());
    std::vector<BatchView::FieldMemory> memory{{reinterpret_cast<std::byte*>(x.data()), 8 * length, nullptr},
                                               {y.data(), 6 * length, nullptr}};
    if (options.edges == Edges::clamp) memory.push_back({is_real.data(), length, nullptr});
    source->read(wanted, BatchView(memory, 0, wanted.size(), epochs));
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const auto& window =
          expected[static_cast<std::size_t>(epochs[i] - epoch)][static_cast<std::size_t>(wanted[i].value)];
      const auto real = std::span(is_real).subspan(i * length, memory.size() == 3 ? length : 0);
      expect_sample(window, std::span(x).subspan(i * length, length), real);
      for (std::size_t k = 0; k < length * 6; ++k)
        ASSERT_EQ(y[i * length * 6 + k], NumberedRows::y(window.rows[k / 6], k % 6));
    }
  });
}

// Each sample of each batch; and in all epochs together, that none has the same rows throughout.
void expect_moved(Loader& loader, const std::vector<std::pair<Numbers, WindowOptions>>& datasets) {
  std::map<std::int64_t, std::set<Numbers>> seen;
  while (const auto batch = loader.next()) {
    const auto x = batch->tensor(0).as<std::int64_t>();
    const std::size_t length = x.size() / static_cast<std::size_t>(batch->size());
    for (std::size_t i = 0; i < batch->ids().size(); ++i) {
      const SampleId id = batch->ids()[i];
      const std::size_t d = datasets.size() > 1 && id.value >= loader.first_id(1).value ? 1 : 0;
      const std::int64_t own = id.value - (d == 1 ? loader.first_id(1).value : 0);
      const auto all = naive_windows(datasets[d].first, datasets[d].second, batch->epochs()[i]);
      expect_sample(all[static_cast<std::size_t>(own)], x.subspan(i * length, length), {});
      seen[id.value].insert(all[static_cast<std::size_t>(own)].rows);
    }
  }
  if (datasets.size() == 1)
    EXPECT_TRUE(std::ranges::all_of(seen, [](const auto& one) { return one.second.size() > 1; }));
}

const Numbers kParts = {40, 25, 60};
const WindowOptions kShape{.length = 4, .stride = 3, .jitter = 8, .seed = 5};
const LoaderOptions kFiveEpochs{.global_batch_size = 7, .tail = Tail::carry, .epochs = 5};

TEST(WindowMoves, OfALoaderAreOthersInEachEpochAndTheSameForAnyWorkersAndAfterAResumeAnywhere) {
  for (const int workers : {0, 1, 3}) {
    LoaderOptions options = kFiveEpochs;
    options.workers = workers;
    Loader loader(over(kParts, kShape), options);
    for (int step = 0; step < 8; ++step) ASSERT_TRUE(loader.next());
    EXPECT_EQ(loader.position().epoch, 1);
    const std::string text = state(loader);
    Loader whole(over(kParts, kShape), options);
    expect_moved(whole, {{kParts, kShape}});
    Loader resumed(over(kParts, kShape), options);
    restore(resumed, text);
    expect_moved(resumed, {{kParts, kShape}});
  }
}

TEST(WindowMoves, OfAMixtureGoByTheEpochsOfEachDataset) {
  const WindowOptions other{.length = 4, .stride = 2, .jitter = 3, .seed = 6};
  Loader loader(Mixture{.datasets = {{over(kParts, kShape), 3}, {over({30}, other), 1}},
                        .end = MixtureEnd::steps,
                        .steps = 40},
                kFiveEpochs);
  expect_moved(loader, {{kParts, kShape}, {{30}, other}});
}

TEST(WindowMoves, AreEquallyLikelyAndStayInside) {
  std::map<std::int64_t, int> counts[2];
  const auto source = over({40, 9}, {.length = 4, .stride = 5, .jitter = 3, .seed = 1});
  for (std::int64_t epoch = 0; epoch < 2800; ++epoch) {
    const Samples samples(*source, ids({2, 9}), false, epoch);
    for (std::size_t i : {0U, 1U}) ++counts[i][samples.values<std::int64_t>(0, i)[0]];
  }
  for (const auto& [row, count] : counts[0]) EXPECT_NEAR(count, 400, 90) << row;
  EXPECT_EQ(counts[0].size(), 7U);
  EXPECT_EQ(counts[0].begin()->first, 7);
  for (const auto& [row, count] : counts[1]) EXPECT_NEAR(count, 700, 110) << row;
  EXPECT_EQ(counts[1].begin()->first, 42);  // and not 40 to 41, or from 46 on
  EXPECT_EQ(counts[1].size(), 4U);
}

TEST(WindowMoves, NeverChangeFromOneReleaseToTheNext) {
  const auto source = over({1000}, {.length = 1, .stride = 100, .jitter = 49, .seed = 7});
  Numbers rows;
  for (const std::int64_t epoch : {0, 1}) {
    const Samples samples(*source, ids({0, 4, 9}), false, epoch);
    for (std::size_t i = 0; i < 3; ++i) rows.push_back(samples.values<std::int64_t>(0, i)[0]);
  }
  EXPECT_EQ(rows, (Numbers{21, 404, 855, 21, 390, 931}));
  EXPECT_EQ(to_string(source->fingerprint()), "54eea9119561b8fdb24658783b9fff2a");
}

TEST(WindowMoves, AreToldApartAndNoneIsAsEver) {
  const auto known = over({40}, {.length = 4})->fingerprint();
  EXPECT_EQ(over({40}, {.length = 4, .seed = 9})->fingerprint(), known);
  std::set<std::string> all{to_string(known)};
  for (const std::uint64_t seed : {0U, 9U}) {
    for (const std::int64_t jitter : {1, 2})
      all.insert(to_string(over({40}, {.length = 4, .jitter = jitter, .seed = seed})->fingerprint()));
  }
  EXPECT_EQ(all.size(), 5U);
}

TEST(WindowMoves, APlanIsToldAllRowsThatTheyMayHaveOrNone) {
  Numbers told;
  const auto rows = std::make_shared<NumberedRows>(Numbers{20, 20});
  rows->on_plan = [&](std::int64_t) { return std::make_unique<WritingPlan>(*rows, told); };
  const auto source = windows(rows, {.length = 4, .stride = 4, .jitter = 2});  // 5 in each
  const auto plan = PlannedSource::plan_of(*source);
  EXPECT_TRUE(plan->changes_by_epoch());
  EXPECT_FALSE(PlannedSource::plan_of(*over({20}, {.length = 4}))->changes_by_epoch());
  EXPECT_EQ(plan->samples_ahead(), 2);
  plan->tell(ids({5, 2}));
  EXPECT_EQ(told, (Numbers{20, 21, 22, 23, 24, 25, 6, 7, 8, 9, 10, 11, 12, 13}));
  EXPECT_EQ(plan->bring({1, 3}, true).bytes, 200 + 14);
  EXPECT_EQ(plan->sharing(), Sharing::in_few);
  EXPECT_EQ(source->where({9}), "row 34 to row 39");
  told.clear();
  const auto sparse = windows(rows, {.offsets = {0, 9}, .edges = Edges::clamp, .jitter = 1});
  PlannedSource::plan_of(*sparse)->tell(ids({18, 21}));
  EXPECT_EQ(told, (Numbers{17, 18, 19, 20, 21, 22, 29, 30, 31}));
  told.clear();
  const auto far = PlannedSource::plan_of(*windows(rows, {.length = 4, .jitter = 7}));
  far->tell(ids({3}));
  EXPECT_EQ(far->samples_ahead(), 0);
  EXPECT_THAT(told, IsEmpty());
}

TEST(WindowMoves, AreTakenToTheirRimWithoutOverflow) {
  constexpr std::int64_t kMostMoves = std::int64_t{1} << 31;
  const auto huge = told(kMaxCount);
  Ids rows;
  huge->on_read = [&](SampleId id) { rows.push_back(id); };
  for (const Edges edges : {Edges::drop, Edges::clamp}) {
    const auto all = windows(huge, {.length = 2, .edges = edges, .jitter = kMostMoves});
    for (const SampleId id : {SampleId{0}, SampleId{all->size() - 1}}) {
      rows.clear();
      Samples(*all, {id}, false, 3);
      ASSERT_GE(rows.size(), 1U);
      EXPECT_LE(std::abs(rows[0].value - id.value), kMostMoves);
      EXPECT_NO_THROW(static_cast<void>(all->will_read(id, 1)));
    }
  }
  const WindowOptions far{.offsets = {-kMaxCount, kMaxCount}, .edges = Edges::clamp, .jitter = kMostMoves};
  EXPECT_EQ(Samples(*windows(huge, far), ids({kMaxCount - 1})).sample(1, 0), std::string(2, '\0'));
}

}  // namespace rota::test::window_moves_test
