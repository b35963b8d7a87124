// Plans as text, in files and in states: what is right comes back, and what is wrong is refused by name.

#include "core/state_text.hpp"
#include "order/random_plan.hpp"
#include "order/run_order.hpp"
#include "source/reading.hpp"

namespace rota::test::plan_text_test {

TEST(PlanText, AreTextAndBack) {
  for_seeds(300, [](std::uint64_t, std::mt19937_64& random) {
    std::vector<SampleId> ids;
    for (std::int64_t id = 0; id < 90; id += draw(random, 1, 3)) ids.push_back({id});
    const RunPlan plan = random_plan(random, static_cast<std::size_t>(draw(random, 0, 5)), ids);
    ASSERT_EQ(parse_plan(to_string(plan)), plan);
  });
  const std::vector<std::string> names{"web", "code", "books"};
  const RunPlan named =
      parse_plan(R"({"stages": [{"steps": "1.5K", "weights": {"books": 0.5, "web": 2}}]})", names);
  EXPECT_EQ(named,
            (RunPlan{.stages = {{.begin = 1500, .unit = Stage::Unit::steps, .weights = {2, 0, 0.5}}}}));
  RunPlan large;
  for (std::int64_t s = 0; s < 10; ++s)
    large.stages.push_back(
        {.begin = s * 123'456'789, .global_batch_size = 1024, .weights = std::vector(10, 0.1)});
  EXPECT_LE(to_string(large).size(), 4096);
}

/// What is wrong with a plan, of a mixture of three datasets, and what is said of it.
struct Bad {
  std::string text;
  std::vector<std::string> words;
};

TEST(PlanText, RefuseBadPlansBySayingWhereAndWhatTheyMayBe) {
  const std::vector<Bad> table{
      {"", {"no JSON"}},
      {R"({"stages": [)", {"no JSON"}},
      {"[1]", {"is no object"}},
      {R"({"stages": {}})", {"stages", "no array"}},
      {R"({"stages": [1]})", {"stages[0]", "no object"}},
      {R"({"stage": []})", {"\"stage\" is not known", "stages, skip"}},
      {R"({"stages": [{"steps": 1, "weigths": [1]}]})", {"stages[0].\"weigths\"", "weights"}},
      {R"({"stages": [{"weights": [1, 1, 1]}]})", {"stages[0]", "one of steps, samples and tokens"}},
      {R"({"stages": [{"steps": 1, "samples": 1}]})", {"one of steps, samples and tokens"}},
      {R"({"stages": [{"steps": -1}]})", {"stages[0].steps", "-1"}},
      {R"({"stages": [{"steps": 1.5}]})", {"stages[0].steps", "1.5"}},
      {R"({"stages": [{"steps": "12X"}]})", {"12X", "250B"}},
      {R"({"stages": [{"steps": "B"}]})", {"\"B\"", "250B"}},
      {R"({"stages": [{"steps": "1e30"}]})", {"1e30", "2^62"}},
      {R"({"stages": [{"steps": "0.0001K"}]})", {"0.0001K"}},
      {R"({"stages": [{"steps": "nan"}]})", {"nan"}},
      {R"({"stages": [{"steps": 5}, {"steps": 5}]})", {"stages[1].steps is 5", "more than 5"}},
      {R"({"stages": [{"steps": 5}, {"samples": 900}, {"steps": 4}]})",
       {"stages[2].steps is 4", "more than 5"}},
      {R"({"stages": [{"steps": 5, "global_batch_size": -1}]})", {"global_batch_size"}},
      {R"({"stages": [{"steps": 5, "global_batch_size": 0}]})", {"global_batch_size", "from 1 to"}},
      {R"({"stages": [{"steps": 5, "global_batch_size": 9999999999}]})", {"stages[0].global_batch_size"}},
      {R"({"stages": [{"tokens": 5}]})", {"stages[0] is of tokens", "tokens_per_sample"}},
      {R"({"stages": [{"steps": 5, "weights": [1, 2]}]})", {"stages[0].weights is of 2", "3 datasets"}},
      {R"({"stages": [{"steps": 5, "weights": [0, 0, 0]}]})", {"stages[0].weights", "above 0"}},
      {R"({"stages": [{"steps": 5, "weights": [-1, 1, 1]}]})", {"stages[0].weights", "0 or more"}},
      {R"({"stages": [{"steps": 5, "weights": [1, "x", 1]}]})", {"weights", "no number"}},
      {R"({"stages": [{"steps": 5, "weights": {"x": 1}}]})", {"\"x\"", "a, b, c"}},
      {R"({"stages": [{"steps": 5, "weights": 1}]})", {"weights", "no list of numbers"}},
      {R"({"stages": [{"steps": 5, "toward": [1, 1, 1]}, {"steps": 9}]})",
       {"toward", "a stage with weights"}},
      {R"({"stages": [{"steps": 5, "weights": [1, 1, 1], "toward": [1, 1, 2]}]})",
       {"toward", "begins by steps"}},
      {R"({"stages": [{"steps": 5, "weights": [1, 1, 1], "toward": [1, 1, 2]}, {"samples": 9}]})",
       {"toward", "begins by steps"}},
      {R"({"stages": [{"steps": 5, "leave_out": "bad.txt"}]})", {"leave_out", "is a path", "read_plan"}},
      {R"({"stages": [{"steps": 5, "leave_out": [[5, 5]]}]})", {"leave_out", "5"}},
      {R"({"stages": [{"steps": 5, "leave_out": [[5, 9, 12]]}]})", {"leave_out"}},
      {R"({"stages": [{"steps": 5, "leave_out": [[0, 99999]]}]})", {"leave_out", "65537", "without()"}},
      {R"({"stages": [{"steps": 5, "leave_out": [[0, 60000]]}, {"steps": 9, "leave_out": [[0, 60000]]}]})",
       {"leave_out", "120000", "without()"}},
      {R"({"stages": [{"steps": 5, "leave_out": [-1]}]})", {"leave_out", "-1"}},
      {R"({"stages": [{"steps": 5, "leave_out": {"a": 1}}]})", {"leave_out", "no array"}},
      {R"({"stages": [{"steps": 5, "leave_out": [1.5]}]})", {"leave_out", "1.5"}},
      {R"({"skip": [[5, 5]]})", {"skip[0] ends", "5", "6 to 2^62"}},
      {R"({"skip": [[5, 3]]})", {"skip[0] ends"}},
      {R"({"skip": [[5, 9], [9, 12]]})", {"skip[1] begins", "behind the range before it"}},
      {R"({"skip": [[-5, 9]]})", {"skip"}},
      {R"({"skip": [5]})", {"pairs of steps"}},
      {R"({"by": "bytes"})", {"by", "neither samples nor tokens"}},
      {R"({"by": "tokens"})", {"tokens_per_sample"}},
      {R"({"tokens_per_sample": [1, 2]})", {"tokens_per_sample is of 2", "3 datasets"}},
      {R"({"tokens_per_sample": [1, 0, 2]})", {"tokens_per_sample", "0.001 to 10^12"}},
      {R"({"tokens_per_sample": {"a": 1}})", {"tokens_per_sample"}},
      {R"({"skip": [], "skip": []})", {"\"skip\" comes twice"}},
      {std::string(99, '['), {"nested deeper"}},
  };
  for (const Bad& bad : table) {
    SCOPED_TRACE(bad.text);
    EXPECT_THAT(error_of([&] {
                  parse_plan(bad.text, {"a", "b", "c"}).validate(3);
                }),
                is_error(ErrorCode::invalid_argument, bad.words));
  }
  EXPECT_ERROR(parse_plan(R"({"stages": [{"steps": 5, "weights": {"x": 1}}]})"), invalid_argument,
               {"have none"});
  EXPECT_ERROR(rota::Run(9, {.plan = {.stages = {{.weights = {1}}}}}), invalid_argument,
               {"mixes no datasets"});
  EXPECT_TRUE(rota::Run(100, {.plan = {.skip = {{0, 99}}}}).is_over());
  EXPECT_TRUE(
      rota::Run(100, {.tail = Tail::drop, .plan = {.stages = {{.global_batch_size = 101}}}}).is_over());
}

TEST(PlanText, OfAStateAreRefusedWhereNoRunHasThem) {
  rota::Run run(100, {.global_batch_size = 10, .plan = {.stages = {{.begin = 50, .global_batch_size = 5}}}});
  (void)run.advance();
  run.set_global_batch_size(9);
  const auto good = OrderedJson::parse(run.state());
  const auto refuses = [&](const std::vector<std::string>& words,
                           const std::function<void(OrderedJson&)>& how) {
    OrderedJson state = good;
    how(state);
    EXPECT_THAT(error_of([&] { (void)rota::Run::from(sealed(state)); }), is_error(ErrorCode::corrupt, words));
  };
  EXPECT_EQ(good["rota_state"], 3);
  refuses({"plan", "samples"}, [](OrderedJson& state) { state["way"]["plan"]["stages"][0]["samples"] = -3; });
  refuses({"way.global_batch_size", "is 0"},
          [](OrderedJson& state) { state["way"]["global_batch_size"] = 0; });
  refuses({"way.given_batch_size"}, [](OrderedJson& state) { state["way"].erase("given_batch_size"); });
  refuses({"changes", "step"}, [](OrderedJson& state) { state["way"]["changes"][0]["step"] = "x"; });
  refuses({"changes", "out of order"},
          [](OrderedJson& state) { state["way"]["changes"].push_back(state["way"]["changes"][0]); });
  refuses({"changes", "no mixture"}, [](OrderedJson& state) {
    state["way"]["changes"][0]["weights"] = {1, 2};
  });
}

// Written by the first rota that had plans: never to be changed.
TEST(PlanText, OfTheFirstStatesWithPlansIsReadForEver) {
  const std::string text =
      R"({"rota_state":3,"kind":"Loader","order":{"version":1,"dataset":"4bf3994b89606a37c78d622340f29390)"
      R"(","samples":500,"shards":4,"lengths":"b6f66397d557cf45d07e85f15dcf7398","interleave":4,"shuffle")"
      R"(:"global","seed":"7","block_samples":256,"block_blocks":16},"position":{"epoch":0,"consumed":54,)"
      R"("step":5},"mixture":{"weights":[1,1],"changed_at":0,"counts":[0,0],"given":[1,1],"sizes":[300,20)"
      R"(0],"end":"all_exhausted","steps":0,"datasets":[{"name":"web","dataset":"450c5ec0381ee557ceae120e)"
      R"(1cdaaa4b"},{"name":"code","dataset":"b9da89b7a0ef1c4e378f71c07a16b4b9"}]},"run":{"global_batch_s)"
      R"(ize":12,"tail":"partial","epochs":"1","world_size":1,"since":{"epoch":0,"consumed":30,"step":3}})"
      R"(,"way":{"begin":{"epoch":0,"consumed":0,"step":0},"global_batch_size":10,"takes_stages":1,"given)"
      R"(_batch_size":10,"mixture":{"weights":[1,1],"changed_at":0,"counts":[0,0]},"plan":{"stages":[{"sa)"
      R"(mples":60,"global_batch_size":15,"weights":[3.0,1.0],"toward":[1.0,3.0]},{"samples":400}],"skip")"
      R"(:[[5,7]],"tokens_per_sample":[2.5,4.0]},"changes":[{"epoch":0,"consumed":30,"step":3,"global_bat)"
      R"(ch_size":12}]},"digest":"1289a26653057877994e74a433c00388"})";
  const rota::Run run = rota::Run::from(text);
  EXPECT_EQ(run.state(), text);
  EXPECT_EQ(run.position(), (Position{.consumed = 54, .step = 5}));
  const std::map<std::int64_t, std::pair<Position, Numbers>> steps{
      {1, {{.consumed = 10, .step = 1}, {141, 152, 13, 43}}},
      {4, {{.consumed = 42, .step = 4}, {7, 205, 140, 86}}},
      {5, {{.consumed = 81, .step = 7}, {90, 172, 58, 109}}},
      {9, {{.consumed = 111, .step = 9}, {153, 2, 227, 87}}},
      {30, {{.consumed = 426, .step = 30}, {64, 17, 83, 171}}}};
  for (const auto& [step, expected] : steps) {
    RunSlice slice;
    ASSERT_TRUE(run.at(step)->slice(slice));
    EXPECT_EQ(slice.start, expected.first);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(slice.ids[i].value, expected.second[i]) << step;
  }
}

}  // namespace rota::test::plan_text_test
