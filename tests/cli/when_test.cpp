// `rota when`: what it says of states is what the loaders of these states hand out.

#include <nlohmann/json.hpp>

#include "cli/programs.hpp"
#include "source/told_source.hpp"

namespace rota::test::when_verb_test {

using nlohmann::json;

/// Three files of lines, and what a run over them has left.
class WhenVerb : public ProgramTest {
 protected:
  WhenVerb() {
    std::int64_t number = 0;
    for (const int lines : {5, 9, 6}) {
      std::string text;
      for (int i = 0; i < lines; ++i) text += fmt::format("{{\"n\": {}}}\n", number++);
      write(fmt::format("data/{}.jsonl", lines), text);
    }
  }
  Loader loader(LoaderOptions options, World world = {}) const {
    options.global_batch_size = 4;
    options.workers = 0;
    return Loader(open(path("data")), std::move(options), world);
  }
  json told(const std::string& arguments) const {
    const Ended ended = rota("when --json " + arguments);
    EXPECT_EQ(ended.code, 0) << ended.output;
    return json::parse(ended.output, nullptr, false);
  }
  /// Of every step, to the end, and of each of its samples, as rank 1 of 3 has it.
  void expect_as_handed_out(Loader rank, const std::string& arguments) const {
    while (const auto batch = rank.next()) {
      const std::int64_t step = batch->start().step;
      const json all = told(fmt::format("{} --step {} --rank 1 --ranks 3", arguments, step));
      ASSERT_EQ(std::ssize(all["samples"]), batch->size());
      EXPECT_EQ(all["global_size"], batch->global_size());
      for (std::size_t i = 0; i < batch->ids().size(); ++i) {
        const json& sample = all["samples"][i];
        EXPECT_EQ(sample["id"], batch->ids()[i].value);
        EXPECT_EQ(sample["slot"], batch->slots()[i]);
        if (sample.contains("where")) {
          EXPECT_EQ(sample["where"], rank.source().where(batch->ids()[i]));
        }
      }
      if (batch->size() == 0) continue;
      const json when = told(fmt::format("{} --sample {} --epoch {} --ranks 3", arguments,
                                         batch->ids()[0].value, batch->epochs()[0]));
      EXPECT_EQ(when["step"], step);
      EXPECT_EQ(when["rank"], 1);
      EXPECT_EQ(when["slot"], batch->slots()[0]);
    }
  }
};

TEST_F(WhenVerb, TellsOfStepsAndSamplesThatThePlanLeavesOut) {
  write("state",
        state(loader({.shuffle = Shuffle::none,
                      .plan = {.stages = {{.begin = 10, .global_batch_size = 2}}, .skip = {{1, 2}}}})));
  const json step = told("state data --step 1");
  EXPECT_EQ(step["is_skipped"], true);
  EXPECT_EQ(step["samples"][0]["id"], 4);
  EXPECT_EQ(told("state data --step 5")["global_size"], 2);
  EXPECT_THAT(rota("when state data --sample 5").output, HasSubstr("step 1, rank 0 of 1, slot 1; skipped"));
  EXPECT_EQ(rota("when state data --sample 5").code, 1);
  write("without", state(loader({.shuffle = Shuffle::none, .plan = {.stages = {{.leave_out = {{5}}}}}})));
  const json samples = told("without data --step 1")["samples"];
  EXPECT_EQ(samples[0]["kind"], "sample");
  EXPECT_EQ(samples[1]["kind"], "skipped");
}

TEST_F(WhenVerb, HasADiffOfPlansBesideIt) {
  LoaderOptions options{.global_batch_size = 4, .shuffle = Shuffle::none, .epochs = 1000, .workers = 0};
  Loader mixed(
      {.datasets = {{counting(100), 1, "web"}, {counting(200), 1, "code"}}, .end = MixtureEnd::all_exhausted},
      options, {});
  for (int steps = 0; steps < 5; ++steps) ASSERT_TRUE(mixed.next());
  write("state", state(mixed));
  write("a", R"({"tokens_per_sample": {"web": 2, "code": 5}})");
  write("b", R"({"tokens_per_sample": {"web": 2, "code": 5}, "skip": [[20, 30]],
                 "stages": [{"steps": 15, "weights": {"code": 1}, "global_batch_size": 8}]})");
  const Ended ended = rota("diff a b state --steps 100 --json");
  EXPECT_EQ(ended.code, 1) << ended.output;
  const json diff = json::parse(ended.output, nullptr, false);
  EXPECT_EQ(diff["first_difference"], 15);
  EXPECT_EQ(diff["steps"], json({100, 100}));
  EXPECT_EQ(diff["datasets"][0]["samples"], json({200, 20}));
  EXPECT_EQ(diff["datasets"][1]["samples"], json({200, 20 + 8 * (90 - 10)}));
  EXPECT_EQ(diff["datasets"][1]["tokens"], json({1000, 5 * (20 + 8 * (90 - 10))}));
  EXPECT_EQ(rota("diff a a state").code, 0);
  write("past", R"({"stages": [{"steps": 2, "global_batch_size": 8}]})");
  EXPECT_THAT(
      rota("diff a past state"),
      ends(
          1,
          HasSubstr(
              "past: step 2 is past, and was of 4 samples by weights 1:1; by this plan it is of 8 samples")));
  EXPECT_THAT(rota("diff a nowhere state"), ends(1, HasSubstr("no such file")));
}

TEST_F(WhenVerb, TellsOfAStateAndOfACheckpointWhatEachRankReads) {
  Loader whole = loader({});
  for (int steps = 0; steps < 2; ++steps) (void)whole.next();
  write("state", state(whole));
  write("quoted", json(state(whole)).dump());
  write("dict", json{{"rota", state(whole)}, {"fingerprint", "mine"}}.dump());
  CheckpointDirectory({}, dir_ / "checkpoints").save_all(2, whole);
  for (const char* file : {"state", "quoted", "dict", "checkpoints/checkpoint-000000000000.h5"}) {
    SCOPED_TRACE(file);
    expect_as_handed_out(loader({}, {.rank = 1, .size = 3}), file);
  }
  expect_says("when state --step 4", 0,
              AllOf(HasSubstr("step 4: begins in epoch 0 behind sample 16"), HasSubstr("4 slots")));
  expect_says("when state data --sample 7", 0, AllOf(HasSubstr("6.jsonl, record 2"), HasSubstr("slot")));
}

TEST_F(WhenVerb, TakesTheLengthsOfShardsThatAreFilesFromTheData) {
  const LoaderOptions options{.shards = kFileShards, .interleave = 1, .shuffle = Shuffle::within};
  const Loader by_files = loader(options);
  write("state", state(by_files));
  write("recipe", by_files.run().recipe());
  expect_as_handed_out(loader(options, {.rank = 1, .size = 3}), "state " + path("data"));
  expect_as_handed_out(loader(options, {.rank = 1, .size = 3}), "recipe");
  expect_says("when state --step 0", 1, HasSubstr("no more than a digest of their lengths"));
  write("data/new.jsonl", "{\"n\": 20}\n");
  expect_says("when state data --step 0", 1, AllOf(HasSubstr("20 samples"), HasSubstr("PATH has 21")));
}

TEST_F(WhenVerb, RefusesWhatIsNoStateAndStepsAndSamplesThatThereAreNot) {
  const std::string text = state(loader({.tail = Tail::drop}));
  write("state", text);
  write("cut", text.substr(0, text.size() / 2));
  write("empty", "");
  expect_says("when cut --step 0", 1, HasSubstr("it is no JSON"));
  expect_says("when empty --step 0", 1, HasSubstr("it is no JSON"));
  for (const char* file : {"missing", "data"}) {
    expect_says(fmt::format("when {} --step 0", file), 1, HasSubstr("there is no such file"));
  }
  expect_says("when data/5.jsonl --step 0", 1, HasSubstr("it is no JSON"));
  expect_says("when state --step 5", 1, HasSubstr("find step 5: the run has fewer steps"));
  expect_says("when state --sample 20", 1, HasSubstr("samples 0 to 19"));
  expect_says("when state --sample 1 --epoch 1", 1, HasSubstr("not read"));
  expect_says("when state --step 0 --rank 3 --ranks 3", 1, HasSubstr("rank 3 of 3"));
  expect_says("when state", 2, HasSubstr("give --step or --sample"));
  expect_says("when state --step 0 --sample 0", 2, HasSubstr("--sample"));
}

TEST_F(WhenVerb, RefusesOptionsAndDataThatItWouldNotFollow) {
  write("state", state(loader({})));
  expect_says("when state --step 0 --ranks 3", 2, HasSubstr("give --rank, too"));
  expect_says("when state --step 0 --split by_shard", 2, HasSubstr("give --rank, too"));
  expect_says("when state --sample 0 --rank 1 --ranks 3", 2, HasSubstr("--sample excludes --rank"));
  write("mixture", rota::Run({{.samples = 20}, {.samples = 20}}, {.weights = {1, 3}}).state());
  expect_says("when mixture --step 0", 0, HasSubstr("dataset"));
  expect_says("when mixture data --step 0", 1, HasSubstr("leave PATH out"));
}

TEST_F(WhenVerb, NamesNoFilesOfDataThatTheRunDoesNotRead) {
  write("state", state(loader({})));
  write("number", rota::Run(20).state());
  const auto fingerprint = [&](const char* data) { return to_string(open(path(data))->fingerprint()); };
  for (const int lines : {5, 9, 6}) {
    std::string text;
    for (int i = 0; i < lines; ++i) text += "{}\n";
    write(fmt::format("other/of-{}.jsonl", lines), text);
  }
  expect_says("when state other --step 0", 1,
              AllOf(HasSubstr(fingerprint("data")), HasSubstr(fingerprint("other"))));
  expect_says("when number other --sample 0", 0, HasSubstr("of-5.jsonl, record 0"));
}

}  // namespace rota::test::when_verb_test
