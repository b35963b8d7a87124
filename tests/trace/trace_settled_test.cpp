// Traces of runs that are settled by hand: an audit proves that each sample is settled once, dropped or open.

#include <nlohmann/json.hpp>
#include <set>

#include "cli/audit.hpp"
#include "rota/resume.hpp"
#include "trace/traced_run.hpp"

namespace rota::test::trace_settled_test {

using cli::audit;
using nlohmann::json;

/// All ranks of a world in this process, whose consumers take their time.
class Phase {
 public:
  Phase(const fs::path& dir, const MakeLoader& make, std::int64_t number, int size,
        const std::string& saved) {
    for (int rank = 0; rank < size; ++rank) loaders_.push_back(make({.rank = rank, .size = size}));
    for (Loader& loader : loaders_) {
      if (!saved.empty()) restore(loader, saved);
      traces_.emplace_back(dir, loader, number);
    }
    out_.resize(loaders_.size());
  }

  bool step(std::mt19937_64& random) {
    bool is_there = false;
    for (std::size_t rank = 0; rank < loaders_.size(); ++rank) {
      const auto batch = loaders_[rank].next();
      is_there = batch.has_value();
      if (!batch) continue;
      traces_[rank].write(*batch);
      for (std::size_t i = 0; i < batch->ids().size(); ++i) {
        if (batch->kinds()[i] == SlotKind::sample)
          out_[rank].emplace_back(batch->ids()[i], batch->epochs()[i]);
      }
      settle(rank, draw(random, 0, std::ssize(out_[rank])), random);
    }
    return is_there;
  }
  void settle(std::size_t rank, std::int64_t count, std::mt19937_64& random) {
    std::ranges::shuffle(out_[rank], random);
    for (; count > 0; --count, out_[rank].pop_back()) {
      const auto [id, epoch] = out_[rank].back();
      const auto chance = draw(random, 0, 19);
      if (chance == 0) {
        loaders_[rank].drop({&id, 1}, {&epoch, 1}, "stale");
      } else if (chance < 3) {
        loaders_[rank].again({&id, 1}, {&epoch, 1});
      } else {
        loaders_[rank].settle({&id, 1}, {&epoch, 1});
      }
    }
  }
  /// Of all ranks.
  [[nodiscard]] std::string saved() const {
    std::vector<std::string> parts;
    for (const Loader& loader : loaders_) parts.push_back(state(loader));
    return merge_states(parts);
  }
  void end() {
    for (std::size_t rank = 0; rank < loaders_.size(); ++rank) {
      loaders_[rank].settle(ids(rank), epochs(rank));
      traces_[rank].end(loaders_[rank]);
    }
  }

 private:
  [[nodiscard]] std::vector<SampleId> ids(std::size_t rank) const {
    std::vector<SampleId> ids;
    for (const auto& name : out_[rank]) ids.push_back(name.first);
    return ids;
  }
  [[nodiscard]] std::vector<std::int64_t> epochs(std::size_t rank) const {
    std::vector<std::int64_t> epochs;
    for (const auto& name : out_[rank]) epochs.push_back(name.second);
    return epochs;
  }

  std::vector<Loader> loaders_;
  std::vector<TraceWriter> traces_;
  std::vector<std::vector<std::pair<SampleId, std::int64_t>>> out_;
};

/// Phases that are killed, each `behind` steps after its save, and one to the end.
void run_chain(const fs::path& dir, const MakeLoader& make, std::mt19937_64& random, std::int64_t behind) {
  std::string saved;
  std::int64_t number = 0;
  for (const int size : {1, 3, 2}) {
    Phase phase(dir, make, number++, size, saved);
    for (std::int64_t steps = draw(random, 1, 4); steps > 0; --steps) phase.step(random);
    saved = phase.saved();
    for (std::int64_t steps = draw(random, 0, behind); steps > 0; --steps) phase.step(random);
  }
  Phase last(dir, make, number, 1, saved);
  while (last.step(random)) {
  }
  last.end();
}

TEST(TraceOfWhatIsSettled, PassesAnAuditWhereverItWasKilled) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    const TemporaryDirectory dir;
    const LoaderOptions options{.global_batch_size = draw(random, 3, 8),
                                .shards = 9,
                                .tail = kTails[seed % 4],
                                .rank_split = kSplits[seed % 3],
                                .epochs = 2,
                                .settle = Settle::by_hand};
    const bool is_mixture = seed % 5 == 0;
    run_chain(dir.path(), is_mixture ? two_datasets(options) : one_dataset(50, options), random, 3);
    const auto report = is_mixture ? audit(dir.path(), {.samples = {40, 24}})
                                   : audit(dir.path(), {.samples = {50}, .epochs = 2, .complete = true});
    EXPECT_THAT(report.problems, IsEmpty()) << "seed " << seed << cli::audit_text(report, "run", true);
    EXPECT_THAT(report.open, IsEmpty());
    EXPECT_THAT(cli::verdict(report), HasSubstr("settled, dropped or open"));
  }
}

TEST(TraceOfWhatIsSettled, IsFoundOutWhereALineOfItIsLostTwiceOrOfOthers) {
  const TemporaryDirectory dir;
  std::mt19937_64 random(7);
  run_chain(dir.path(), one_dataset(50, {.global_batch_size = 8, .epochs = 2, .settle = Settle::by_hand}),
            random, 0);
  const cli::AuditOptions options{.samples = {50}, .epochs = 2, .complete = true};
  ASSERT_THAT(audit(dir.path(), options).problems, IsEmpty());
  std::set<std::string> changed;
  for (const auto& entry : fs::directory_iterator(dir.path())) {
    const auto lines = lines_of(entry.path());
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const json record = json::parse(lines[i]);
      const auto event = record["event"].get<std::string>();
      if (!record.contains("ids") || record["ids"].empty() || event == "batch") continue;
      const auto expect_found = [&](const std::string& what, const std::vector<std::string>& instead) {
        auto other = lines;
        other.erase(other.begin() + static_cast<std::ptrdiff_t>(i));
        other.insert(other.begin() + static_cast<std::ptrdiff_t>(i), instead.begin(), instead.end());
        write_lines(entry.path(), other);
        EXPECT_FALSE(audit(dir.path(), options).passed()) << what << ": " << lines[i];
        changed.insert(event);
      };
      const auto with = [&](const char* list, std::int64_t more) {
        json line = record;
        line[list][0] = line[list][0].get<std::int64_t>() + more;
        return line.dump();
      };
      if (event != "again") expect_found("lost", {});
      if (event != "again") expect_found("twice", {lines[i], lines[i]});
      if (event != "again") expect_found("of another epoch", {with("epochs", 1)});
      expect_found("of no sample", {with("ids", 50)});
      json other_bytes = record;
      other_bytes["digests"][0] = "0000000000000000";
      if (event == "again") expect_found("of other bytes", {other_bytes.dump()});
    }
    write_lines(entry.path(), lines);
  }
  EXPECT_THAT(changed, ElementsAre("again", "dropped", "settled"));
}

TEST(TraceOfWhatIsSettled, IsToldWithWhatIsOpenAndDropped) {
  const TemporaryDirectory dir;
  Loader loader = one_dataset(
      20, {.global_batch_size = 8, .tail = Tail::pad, .epochs = 1, .settle = Settle::by_hand})({});
  TraceWriter trace(dir.path(), loader);
  while (const auto batch = loader.next()) {
    trace.write(*batch);
    const auto count = static_cast<std::size_t>(batch->real());
    loader.settle(batch->ids().first(count).subspan(2), batch->epochs().first(count).subspan(2));
    loader.drop(batch->ids().first(1), batch->epochs().first(1), "stale");
  }
  trace.end(loader);
  const auto report = audit(dir.path(), {.samples = {20}});
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_THAT(cli::audit_text(report, "run", true),
              AllOf(HasSubstr("3 samples were dropped by hand"), HasSubstr("3 samples are open")));
  const json told = json::parse(cli::audit_json(report, report))["epochs"][0];
  EXPECT_EQ(told["dropped"], json({{0, 1}, {8, 9}, {16, 17}}));
  EXPECT_EQ(told["open"], json({{1, 2}, {9, 10}, {17, 18}}));
  EXPECT_EQ(json::parse(cli::audit_json(report, report))["epochs"].size(), 1U);
  EXPECT_THAT(cli::problem_text(audit(dir.path(), {.samples = {20}, .complete = true}).problems),
              HasSubstr("3 samples are open"));
}

TEST(TraceOfWhatIsSettled, ThatCannotBeWrittenLeavesTheSampleOpen) {
  const TemporaryDirectory dir;
  Loader loader = one_dataset(20, {.global_batch_size = 8, .settle = Settle::by_hand})({});
  TraceWriter trace(dir.path(), loader);
  const auto batch = loader.next();
  trace.write(*batch);
  const auto error = error_on_full_disk(100, [&] { loader.settle(*batch); });
  EXPECT_THAT(std::string(error.value().what()), HasSubstr("write"));
  EXPECT_EQ(loader.stats().open, 8);
  loader.settle(*batch);
  EXPECT_EQ(loader.stats().open, 0);
}

}  // namespace rota::test::trace_settled_test
