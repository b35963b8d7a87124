// `rota audit --json`: what is in its members.

#include <nlohmann/json.hpp>

#include "cli/audit_fixture.hpp"
#include "cli/fake_stream.hpp"
#include "cli/programs.hpp"
#include "test.hpp"

namespace rota::test::audit_json_test {

using nlohmann::json;

template <typename AnyRun>
json json_of(const AnyRun& run, const cli::AuditOptions& options = {}) {
  const TemporaryDirectory dir;
  run.write(dir.path());
  const cli::AuditReport report = cli::audit(dir.path(), options);
  cli::AuditOptions running = options;
  running.running = true;
  return json::parse(cli::audit_json(report, cli::audit(dir.path(), running)));
}

json part(int phase, int begin, int end, bool counts = true) {
  return {{"phase", phase}, {"begin", begin}, {"end", end}, {"counts", counts}};
}
json epoch(int number, int size, const std::vector<json>& parts, const json& faults = json::array()) {
  return {{"epoch", number}, {"size", size}, {"parts", parts}, {"faults", faults}};
}
json fault(const char* kind, int begin, int end) { return {{"kind", kind}, {"begin", begin}, {"end", end}}; }

TEST(AuditJson, SaysWhichPhaseDeliveredWhichPartOfAnEpoch) {
  const json found = json_of(three_worlds());
  EXPECT_EQ(found["samples"], json({100}));
  EXPECT_EQ(found["epochs"], json({epoch(0, 100, {part(0, 0, 80), part(1, 80, 100)}),
                                   epoch(1, 100, {part(1, 0, 20), part(2, 20, 100)})}));
}

TEST(AuditJson, SaysWhatIsMissingAndWhatCameTwice) {
  FakeRun run(100, "partial", 2);
  run.phase(2, 10, 3).back_to(0, 50).phase(3, 10, 1).back_to(0, 40).phase(1, 10, 9);
  for (FakeRecord& record : run.file(2, 0).records) record.step += 10;
  run.file(2, 0).step += 10;
  const json found = json_of(run);
  EXPECT_EQ(found["epochs"][0]["faults"], json({fault("missing", 30, 40), fault("twice", 50, 60)}));
  run.file(2, 0).records.erase(run.file(2, 0).records.begin() + 4, run.file(2, 0).records.begin() + 6);
  EXPECT_EQ(json_of(run)["epochs"][0]["faults"].back(), fault("missing", 80, 100)) << "the next one began";
}

TEST(AuditJson, DoesNotCountStepsThatWereRolledBack) {
  FakeRun run(100, "partial", 1);
  run.phase(2, 16, 6).back_to(0, 64).phase(3, 16, 1);
  EXPECT_EQ(json_of(run)["epochs"],
            json({epoch(0, 100, {part(0, 0, 64), part(0, 64, 96, false), part(1, 64, 80)})}))
      << "and what has not come again is not missing";
  run = FakeRun(100, "partial", 1);
  run.phase(2, 16, 2).back_to(0, 0).phase(3, 16, 1);
  EXPECT_EQ(json_of(run)["epochs"], json({epoch(0, 100, {part(0, 0, 32, false), part(1, 0, 16)})}));
}

TEST(AuditJson, HasTheEpochsThatWerePassedOver) {
  FakeRun run(100, "partial", 1 << 30);
  run.phase(2, 50, 1).back_to(2, 0).phase(2, 50, 0);
  const auto lost = [](int begin) { return json::array({fault("missing", begin, 100)}); };
  EXPECT_EQ(json_of(run)["epochs"],
            json({epoch(0, 100, {part(0, 0, 50)}, lost(50)), epoch(1, 100, {}, lost(0))}))
      << "and not the one that began without a batch";
  run.back_to(1 << 29, 0).phase(2, 50, 2);
  EXPECT_THAT(json_of(run)["epochs"], SizeIs(102)) << "of many the first ones";
}

TEST(AuditJson, DoesNotMissWhatWasRolledBackWithTheEpochBehindIt) {
  FakeRun run(100, "partial", 2);
  run.phase(2, 50, 3).back_to(0, 50).phase(3, 50, 0);
  EXPECT_EQ(json_of(run)["epochs"][0]["faults"], json::array());
}

TEST(AuditJson, DoesNotMissWhatLargerBatchesDrop) {
  FakeRun run(100, "drop", 2);
  run.phase(2, 20, 4).phase(3, 30, 2);
  EXPECT_EQ(json_of(run)["passed"], true);
  EXPECT_EQ(json_of(run)["epochs"], json({epoch(0, 100, {part(0, 0, 80)}), epoch(1, 100, {part(1, 0, 60)})}));
}

TEST(AuditJson, EndsEpochsAsTheirTailSays) {
  for (const auto& [tail, end] : {std::pair("partial", 70), {"carry", 70}, {"drop", 64}, {"pad", 70}}) {
    FakeRun run(70, tail, 2);
    run.phase(2, 16);
    EXPECT_EQ(json_of(run)["epochs"],
              json({epoch(0, 70, {part(0, 0, end)}), epoch(1, 70, {part(0, 0, end)})}))
        << tail;
  }
}

TEST(AuditJson, LeavesOutStepsThatARankLacks) {
  FakeRun run(100, "partial", 1);
  run.phase(2, 16);
  run.file(0, 1).records.resize(3);
  EXPECT_EQ(json_of(run)["epochs"], json({epoch(0, 100, {part(0, 0, 48)})}));
}

TEST(AuditJson, CountsTheStepsOfAStream) {
  const json found = json_of(FakeStream());
  EXPECT_EQ(found["samples"], json::array());
  EXPECT_EQ(found["epochs"], json({epoch(0, 6, {part(0, 0, 4), part(0, 4, 5, false), part(1, 4, 6)})}));
}

TEST(AuditJson, HasWhatEachRankWaitedForInEachBatch) {
  FakeRun run(20, "partial", 1);
  run.phase(2, 10, 1).phase(3, 10, 1);
  run.record(1, 2, 0).more = R"(,"at":1000.5,"wait":0.25,"read":0.125,"transform":0.5)";
  const json phases = json_of(run)["phases"];
  EXPECT_EQ(phases[1]["phase"], 1);
  EXPECT_EQ(phases[1]["world"], 3);
  EXPECT_EQ(phases[1]["step"], 1);
  EXPECT_THAT(phases[0]["ranks"], SizeIs(2));
  EXPECT_EQ(phases[1]["ranks"][2], json({{"rank", 2},
                                         {"at", {1000.5}},
                                         {"wait", {0.25}},
                                         {"read", {0.125}},
                                         {"transform", {0.5}},
                                         {"samples", {4}},
                                         {"slow", json::object()}}));
  EXPECT_EQ(phases[1]["ranks"][0]["at"], json({-1.0})) << "a trace without times";
}

TEST(AuditJson, NamesTheSlowFileWhole) {
  const std::string row = "a, b 1.h5, row 5";
  for (const auto& [slow, file] : {std::pair<std::string, std::string>("a, b 1.h5", "a, b 1.h5"),
                                   {row, "a, b 1.h5"},
                                   {row + " to a, b 1.h5, row 9", "a, b 1.h5"},
                                   {"a, row 1.txt, record 7 at byte 90", "a, row 1.txt"},
                                   {"a.tar, record 7 at byte 90, \"b, row 2\"", "a.tar"},
                                   {"a, record 7 at byte 9.txt", "a, record 7 at byte 9.txt"}}) {
    FakeRun run(20, "partial", 1);
    run.phase(1, 10, 2);
    for (const int i : {0, 1}) {
      run.record(0, 0, static_cast<std::size_t>(i)).more =
          fmt::format(R"(,"slowest":{},"slowest_seconds":{}.5)", json(slow).dump(), i);
    }
    EXPECT_EQ(json_of(run)["phases"][0]["ranks"][0]["slow"], json({{file, {0.5, 1.5}}})) << slow;
  }
}

TEST(AuditJson, PassesOverTimesThatAreNone) {
  FakeRun run = three_worlds();
  run.record(0, 0, 1).more = R"(,"at":"noon","wait":[],"read":null,"slowest":7,"slowest_seconds":{})";
  run.record(0, 0, 2).more = R"(,"at":1e308,"wait":-1e308)";
  const json found = json_of(run);
  EXPECT_EQ(found["passed"], true);
  EXPECT_EQ(found["phases"][0]["ranks"][0]["wait"], json(std::vector<double>(5)));
  EXPECT_EQ(found["phases"][0]["ranks"][0]["at"][2], -1.0);
}

TEST(AuditJson, JudgesAsTheTextDoes) {
  FakeRun run = three_worlds();
  EXPECT_THAT(json_of(run)["verdict"], Eq("passed: each sample exactly once per epoch, ranks in lockstep, "
                                          "equal slices, one content per sample"));
  EXPECT_EQ(json_of(run)["problems"], json::array());
  run.record(1, 2, 0).digests[0] = 1;
  run.record(1, 2, 0).digests[1] = 1;
  const json found = json_of(run);
  EXPECT_EQ(found["passed"], false);
  EXPECT_EQ(found["verdict"], "found 1 problem");
  json problem = found["problems"][0];
  EXPECT_EQ(problem["text"].get<std::string>() + "\n", text(audit_of(run)).substr(2));
  problem.erase("text");
  EXPECT_EQ(problem, json({{"kind", "content"}, {"phase", 1}, {"rank", 2}, {"step", 5}, {"count", 2}}));
}

TEST(AuditJson, JudgesARunThatIsUnderWayByWhatAllRanksHave) {
  FakeRun run(100, "partial", 2);
  run.phase(2, 16, 4).phase(3, 16, 3);
  run.file(1, 1).records.resize(2);
  const json found = json_of(run);
  EXPECT_EQ(found["passed"], false);
  EXPECT_EQ(found["so_far"]["passed"], true);
  EXPECT_THAT(found["so_far"]["problems"], IsEmpty());
  EXPECT_THAT(found["so_far"]["verdict"].get<std::string>(), StartsWith("passed: "));
}

TEST(AuditJson, HasThePhasesOfSeveralRuns) {
  FakeRun run = three_worlds();
  run.file(1, 0).samples = run.file(1, 1).samples = run.file(1, 2).samples = 99;
  const json found = json_of(run);
  EXPECT_EQ(found["problems"][0]["kind"], "start");
  EXPECT_EQ(found["problems"][0]["rank"], -1);
  EXPECT_THAT(found["phases"], SizeIs(3));
}

class AuditJsonVerb : public ProgramTest {};

TEST_F(AuditJsonVerb, IsOneLineAndEndsAsTheTextDoes) {
  FakeRun run(100, "partial", 1);
  run.phase(2, 16).write(dir_ / "good");
  run.file(0, 1).records.resize(3);
  run.write(dir_ / "running");
  const Ended good = rota("audit good --json");
  EXPECT_EQ(good.code, 0);
  EXPECT_EQ(std::ranges::count(good.output, '\n'), 1);
  EXPECT_EQ(json::parse(good.output)["so_far"]["passed"], true);
  const Ended running = rota("audit running --json");
  EXPECT_EQ(running.code, 1);
  EXPECT_EQ(json::parse(running.output)["so_far"]["passed"], true);
  const json differs = json::parse(rota("audit good --json --same-as running --running").output);
  EXPECT_EQ(differs["problems"][0]["kind"], "difference");
}

}  // namespace rota::test::audit_json_test
