// Runs in balance are held against one without by their traces: the auditor knows no lengths.

#include <nlohmann/json.hpp>

#include "cli/audit.hpp"
#include "rota/resume.hpp"
#include "source/documents.hpp"
#include "trace/traced_run.hpp"

namespace rota::test::trace_balance_test {

using cli::audit;
constexpr std::int64_t kSamples = 500;
constexpr std::array<int, 12> kWorlds = {1, 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31};

LoaderOptions options_of(Tail tail) {
  return {.global_batch_size = 48, .shards = 9, .tail = tail, .epochs = 2};
}

Balance balance_of(std::mt19937_64& random) {
  Numbers lengths(kSamples);
  for (auto& length : lengths) length = draw(random, 0, draw(random, 1, 5000));
  Balance balance{.columns = {{.lengths = Lengths(lengths), .linear = 100, .quadratic = 1}},
                  .equal_counts = draw(random, 0, 1) == 1};
  if (draw(random, 0, 1) == 0)
    balance.micro_batches = draw(random, 1, 3);
  else
    balance.micro_cost = 3e7;
  return balance;
}

void change(const fs::path& trace, std::size_t line, const std::function<void(nlohmann::json&)>& how) {
  auto lines = lines_of(trace);
  auto record = nlohmann::json::parse(lines[line]);
  how(record);
  lines[line] = record.dump();
  write_lines(trace, lines);
}

/// A phase of so many steps, which ends without a word, or else of all that are left. Returns the state after
/// `saved_after` of them.
std::string take(const fs::path& dir, const MakeLoader& make, std::int64_t number, int size,
                 const std::string& saved, std::int64_t steps, std::int64_t saved_after) {
  std::vector<Loader> loaders;
  std::vector<TraceWriter> traces;
  for (int rank = 0; rank < size; ++rank) {
    loaders.push_back(make({.rank = rank, .size = size}));
    if (!saved.empty()) restore(loaders.back(), saved);
    traces.emplace_back(dir, loaders.back(), number);
  }
  std::string after = saved;
  for (std::int64_t step = 0; step < steps; ++step) {
    bool is_there = true;
    std::set<std::size_t> micro_batches;
    for (std::size_t rank = 0; rank < loaders.size(); ++rank) {
      const auto batch = loaders[rank].next();
      is_there = batch.has_value();
      if (!batch) traces[rank].end(loaders[rank]);
      if (!batch) continue;
      traces[rank].write(*batch);
      micro_batches.insert(batch->micro_ends().size());
    }
    EXPECT_LE(micro_batches.size(), 1U) << "as many on all ranks";
    if (!is_there) break;
    if (step + 1 == saved_after) after = state(loaders.front());
  }
  return after;
}

TEST(TraceInBalance, IsThatOfARunWithoutInTwelveWorldsThroughKillsAndResumes) {
  std::uint64_t seed = 0;
  for (const Tail tail : {Tail::partial, Tail::carry, Tail::drop, Tail::pad}) {
    std::mt19937_64 random(++seed);
    const TemporaryDirectory plain;
    take(plain.path(), one_dataset(kSamples, options_of(tail)), 0, 1, {}, 1000, 0);
    const cli::AuditOptions how{.samples = {kSamples}, .epochs = 2, .complete = true};
    const auto expected = audit(plain.path(), how);
    ASSERT_TRUE(expected.passed());
    const TemporaryDirectory dir;
    std::string saved;
    std::int64_t number = 0;
    for (const int size : kWorlds) {
      LoaderOptions options = options_of(tail);
      options.rank_split = Split::balanced;
      options.balance = balance_of(random);
      const auto after = draw(random, 0, 2);
      const bool is_last = size == kWorlds.back();
      saved = take(dir.path(), one_dataset(kSamples, options), number++, size, saved,
                   is_last ? 1000 : after + draw(random, 0, 2), after);
    }
    auto report = audit(dir.path(), how);
    cli::compare(report, expected, "plain");
    EXPECT_THAT(report.problems, IsEmpty()) << cli::audit_text(report, "balanced", true);
    EXPECT_THAT(cli::verdict(report), Not(HasSubstr("equal slices")));
  }
}

TEST(TraceInBalance, TellsWhatTheCostliestRankHas) {
  std::mt19937_64 random(5);
  const TemporaryDirectory dir;
  LoaderOptions options = options_of(Tail::partial);
  options.rank_split = Split::balanced;
  options.balance = balance_of(random);
  take(dir.path(), one_dataset(kSamples, options), 0, 4, {}, 1000, 0);
  const auto report = audit(dir.path(), {.samples = {kSamples}});
  const auto json = nlohmann::json::parse(cli::audit_json(report, report));
  const auto& of = json["phases"][0]["costliest_rank"];
  EXPECT_GT(of["by_sample"].get<double>(), 1.2);
  EXPECT_LT(of["balanced"].get<double>(), 1.15);
}

TEST(TraceOfWholeDocuments, PassesThoughEachEpochHasOtherBytesInItsSequences) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < 300; ++i) lengths.push_back(1 + i % 30);
  const auto packed = pack(std::make_shared<Documents>(lengths), {.length = 40, .fit = Fit::best});
  const TemporaryDirectory dir;
  const MakeLoader make = [&](World world) {
    return Loader(packed, {.global_batch_size = 8, .epochs = 3}, world);
  };
  const std::string saved = take(dir.path(), make, 0, 3, {}, 20, 15);
  take(dir.path(), make, 1, 2, saved, 1000, 0);
  const auto report = audit(dir.path(), {.samples = {packed->size()}, .epochs = 3, .complete = true});
  EXPECT_THAT(report.problems, IsEmpty());
  change(dir.path() / "phase-000001-rank-00000.jsonl", 1,
         [](auto& record) { record["digests"][0] = "0000000000000000"; });
  EXPECT_FALSE(audit(dir.path(), {.samples = {packed->size()}}).passed()) << "in one epoch they are compared";
}

TEST(TraceInBalance, WithASlotTwiceIsFoundOut) {
  std::mt19937_64 random(6);
  const TemporaryDirectory dir;
  LoaderOptions options = options_of(Tail::partial);
  options.rank_split = Split::balanced;
  options.balance = balance_of(random);
  take(dir.path(), one_dataset(kSamples, options), 0, 3, {}, 1000, 0);
  change(dir.path() / "phase-000000-rank-00001.jsonl", 2,
         [](auto& record) { record["slots"][0] = record["slots"][1]; });
  EXPECT_FALSE(audit(dir.path(), {.samples = {kSamples}}).passed());
}

}  // namespace rota::test::trace_balance_test
