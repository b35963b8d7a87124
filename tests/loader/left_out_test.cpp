// Samples that a plan leaves out: nobody reads them, and all else stays where it was.

#include <fstream>

#include "loader/course.hpp"

namespace rota::test::left_out_test {

const std::vector<SampleId> kBroken{{3}, {17}, {18}, {41}};

std::shared_ptr<ToldSource> with_broken(std::int64_t size) {
  const auto source = counting(size);
  for (const SampleId id : kBroken) source->corrupt.insert(id.value);
  return source;
}

// "text" is twice as long.
Transform doubled() {
  return {.apply =
              [](const TransformContext& /*context*/, const SampleView& in, SampleOutput& out) {
                std::ranges::copy(in.bytes[0], out.bytes(0).begin());
                const auto text = in.bytes[1];
                const auto to = out.resize(1, 2 * std::ssize(text));
                std::ranges::copy(text, to.begin());
                std::ranges::copy(text, to.begin() + std::ssize(text));
              },
          .fields = {{.name = "x", .dtype = DType::int64, .shape = {2}},
                     {.name = "text", .dtype = DType::uint8, .ragged = true}}};
}

void expect_bytes(const Batch& batch, std::int64_t times) {
  const auto x = batch.tensor(0).as<std::int64_t>();
  for (std::size_t i = 0; i < batch.ids().size(); ++i) {
    const std::int64_t id = batch.ids()[i].value;
    const bool is_out = batch.kinds()[i] == SlotKind::skipped;
    EXPECT_EQ(x[2 * i], is_out ? 0 : id);
    EXPECT_EQ(std::ssize(batch.bytes(1, static_cast<std::int64_t>(i))), is_out ? 0 : times * (id % 7));
  }
}

TEST(LeftOut, IsNeverReadKeepsItsSlotAndCountsForNobody) {
  for_seeds(40, [](std::uint64_t seed, std::mt19937_64& random) {
    const std::int64_t from = draw(random, 0, 1) * 60;  // a sample, and epoch
    LoaderOptions options{.global_batch_size = draw(random, 3, 20),
                          .shards = 5,
                          .seed = seed,
                          .tail = static_cast<Tail>(seed % 4),
                          .rank_split = static_cast<Split>(draw(random, 0, 2)),
                          .epochs = 3,
                          .plan = {.stages = {{.begin = from, .leave_out = kBroken}}},
                          .workers = static_cast<int>(draw(random, 0, 2))};
    const bool is_transformed = draw(random, 0, 1) == 1;
    if (is_transformed) options.transform = doubled();
    LoaderOptions plain = options;
    plain.plan = {};
    const World world{.rank = static_cast<int>(draw(random, 0, 2)), .size = 3};
    const auto source = with_broken(60);
    if (from > 0) source->corrupt.clear();
    Loader loader(source, options, world);
    Loader whole(counting(60), plain, world);
    while (const auto batch = loader.next()) {
      const auto before = whole.next();
      ASSERT_TRUE(before);
      EXPECT_EQ(batch->start(), before->start());
      ASSERT_EQ(batch->size(), before->size());
      std::int64_t gone = 0;
      for (std::size_t i = 0; i < batch->ids().size(); ++i) {
        const bool is_out = std::ranges::count(kBroken, before->ids()[i]) > 0 &&
                            batch->start().epoch * 60 + batch->start().consumed >= from;
        const bool is_pad = before->kinds()[i] == SlotKind::pad;
        gone += is_out && !is_pad ? 1 : 0;
        EXPECT_EQ(batch->kinds()[i], is_out && !is_pad ? SlotKind::skipped : before->kinds()[i]);
        if (is_out && is_pad)
          EXPECT_EQ(std::ranges::count(kBroken, batch->ids()[i]), 0);
        else
          EXPECT_EQ(batch->ids()[i], before->ids()[i]);
      }
      EXPECT_EQ(batch->real(), before->real() - gone);
      RunSlice all;  // of all ranks
      ASSERT_TRUE(loader.run().at(batch->start().step)->slice(all));
      EXPECT_EQ(batch->global_real(), std::ranges::count(all.kinds, SlotKind::sample));
      expect_bytes(*batch, is_transformed ? 2 : 1);
    }
    EXPECT_FALSE(whole.next());
    EXPECT_EQ(loader.skipped().count, 0);
    if (from == 0)
      for (const SampleId id : kBroken) EXPECT_EQ(source->tries(id.value), 0);
  });
}

TEST(LeftOut, GoesWithBadSamplesAndWithThoseThatAreSettled) {
  const auto source = with_broken(60);
  source->corrupt.insert(7);  // which has no "text" anyway
  LoaderOptions options{.global_batch_size = 7, .plan = {.stages = {{.leave_out = kBroken}}}};
  options.bad_samples = kSkip;
  options.settle = Settle::by_hand;
  Loader loader(source, options);
  std::int64_t skipped = 0;
  while (const auto batch = loader.next()) {
    skipped += std::ranges::count(batch->kinds(), SlotKind::skipped);
    expect_bytes(*batch, 1);
    loader.settle(*batch);
  }
  EXPECT_EQ(skipped, std::ssize(kBroken) + 1);
  EXPECT_EQ(loader.skipped().count, 1);
  EXPECT_EQ(loader.stats().open, 0);
}

TEST(LeftOut, MayBeMoreFromAStepOnAndNotInThePast) {
  Loader loader(counting(60), {.global_batch_size = 10});
  for (int step = 0; step < 3; ++step) ASSERT_TRUE(loader.next());
  EXPECT_ERROR(loader.replan({.stages = {{.leave_out = kBroken}}}), mismatch,
               {"step 0 is past", "without 4 that are left out"});
  loader.replan({.stages = {{.begin = 3, .unit = Stage::Unit::steps, .leave_out = kBroken},
                            {.begin = 5, .unit = Stage::Unit::steps, .leave_out = {{1}}}}});
  const rota::Run restored = rota::Run::from(loader.run().state());
  std::set<std::int64_t> gone;
  while (const auto batch = loader.next()) {
    for (std::size_t i = 0; i < batch->ids().size(); ++i) {
      const std::int64_t id = batch->ids()[i].value;
      EXPECT_EQ(restored.when({id}, 0)->is_skipped, batch->kinds()[i] == SlotKind::skipped);
      if (batch->kinds()[i] == SlotKind::skipped) gone.insert(id);
    }
  }
  EXPECT_THAT(gone, IsSubsetOf({1, 3, 17, 18, 41}));
  EXPECT_FALSE(gone.empty());
}

TEST(LeftOut, IsNamedInAFileBesideThePlan) {
  const TemporaryDirectory dir;
  const auto write = [&](const char* name, std::string_view text) {
    std::ofstream(dir.path() / name) << text;
    return (dir.path() / name).string();
  };
  write("bad.txt", "18\n3 17\r\n41\n3\n");
  const std::string plan = write("plan.json", R"({"stages": [{"samples": 0, "leave_out": "bad.txt"}]})");
  const Communicator alone;
  EXPECT_EQ(read_plan(alone, plan).stages[0].leave_out, kBroken);
  EXPECT_EQ(to_string(read_plan(alone, plan)), R"({"stages":[{"samples":0,"leave_out":[3,[17,19],41]}]})");
  std::string often;  // more lines than there may be samples
  for (int line = 0; line < 70'000; ++line) often += "3\n";
  write("bad.txt", often + "18 17 41\n");
  EXPECT_EQ(read_plan(alone, plan).stages[0].leave_out, kBroken);
  const RunOptions many{.plan = parse_plan(R"({"stages": [{"samples": 0, "leave_out": [[5, 70000]]}]})")};
  EXPECT_ERROR(rota::Run({{.samples = 80'000}}, many), invalid_argument, {"65536", "without()"});
  write("bad.txt", "18 x17\n");
  EXPECT_ERROR(read_plan(alone, plan), invalid_argument, {"bad.txt", "\"x17\" is none"});
  write("bad.txt", "18 -1\n");
  EXPECT_ERROR(read_plan(alone, plan), invalid_argument, {"leave_out", "-1"});
  fs::remove(dir.path() / "bad.txt");
  EXPECT_ERROR(read_plan(alone, plan), not_found, {"ids of samples in", "no such file"});
}

TEST(LeftOut, RefusesSamplesThatThereAreNotAndAllOfADataset) {
  const auto refuses = [](std::vector<SampleId> ids, std::vector<std::string> words) {
    const RunOptions options{.weights = {1, 1}, .plan = {.stages = {{.leave_out = std::move(ids)}}}};
    EXPECT_THAT(error_of([&] {
                  rota::Run({{.samples = 2}, {.samples = 5}}, options);
                }),
                is_error(invalid_argument, std::move(words)));
  };
  refuses({{7}}, {"sample 7", "there are 7"});
  refuses({{0}, {1}}, {"all 2 samples of dataset 0"});
  refuses({{3}, {2}}, {"stages[0].leave_out", "ascending"});
  refuses({{-1}}, {"stages[0].leave_out", "0 or more"});
  refuses(std::vector<SampleId>(70'000), {"65536", "without()"});
}

}  // namespace rota::test::left_out_test
