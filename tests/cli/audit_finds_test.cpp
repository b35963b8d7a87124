#include "cli/audit_fixture.hpp"

namespace rota::test::audit_finds_test {

using cli::audit;
using cli::AuditReport;
using cli::ProblemKind;

TEST(Audit, NamesASampleThatIsMissingAndOneThatCameTwice) {
  FakeRun run = three_worlds();
  FakeRecord& record = run.record(1, 2, 0);
  const std::int64_t lost = record.ids[0];
  record.ids[0] = record.ids[1];
  record.digests[0] = record.digests[1];
  const AuditReport report = audit_of(run);
  EXPECT_THAT(kinds(report), ElementsAre(ProblemKind::repeated, ProblemKind::missing));
  EXPECT_THAT(text(report), HasSubstr("phase 1, rank 2, epoch 0, sample 80, step 5: sample " +
                                      std::to_string(record.ids[0])));
  EXPECT_THAT(text(report), HasSubstr("epoch 0 lacks 1 of 100 samples: " + std::to_string(lost)));
}

// ---- one thing broken ----

struct Breakage {
  const char* name;
  FakeRun run;
  std::function<void(FakeRun&)> apply;
  Matcher<std::vector<ProblemKind>> kinds;
  Matcher<std::string> says = _;
};
void PrintTo(const Breakage& breakage, std::ostream* out) { *out << breakage.name; }

class AuditFinds : public TestWithParam<Breakage> {};

TEST_P(AuditFinds, WhatIsBroken) {
  FakeRun run = GetParam().run;
  GetParam().apply(run);
  const AuditReport report = audit_of(run);
  EXPECT_THAT(kinds(report), GetParam().kinds) << text(report);
  EXPECT_THAT(text(report), GetParam().says);
}

FakeRun in_one_phase(std::int64_t samples, const char* tail, std::int64_t epochs, std::int64_t batch) {
  return FakeRun(samples, tail, epochs).phase(1, batch);
}
FakeRun rolled_back(std::int64_t batch = 16) {
  return FakeRun(100, "partial", 2).phase(2, 16, 6).back_to(0, 64).phase(3, batch);
}
FakeRun by_shard() { return FakeRun(100, "partial", 1).by_shard().phase(3, 16); }

auto without(std::int64_t phase, int rank, std::ptrdiff_t record) {
  return [=](FakeRun& run) {
    auto& records = run.file(phase, rank).records;
    records.erase(records.begin() + record);
  };
}
auto with_last_words(const std::string& words) {
  return [=](FakeRun& run) { run.file(1, 1).last_words = words + "\n"; };
}

/// Rank 0 has a slot of what rank 1 is to have.
void move_a_slot(FakeRun& run) {
  const auto move = [](auto& from, auto& to) {
    to.push_back(from.front());
    from.erase(from.begin());
  };
  FakeRecord& from = run.record(1, 1, 2);
  FakeRecord& to = run.record(1, 0, 2);
  move(from.ids, to.ids);
  move(from.digests, to.digests);
  move(from.mask, to.mask);
  move(from.epochs, to.epochs);
}

const auto kOneBatch = ElementsAre(ProblemKind::batch);
const auto kContent = ElementsAre(ProblemKind::content);
const auto kFormat = ElementsAre(ProblemKind::format);
const auto kGap = ElementsAre(ProblemKind::gap, ProblemKind::missing);
const auto kLockstep = ElementsAre(ProblemKind::lockstep, ProblemKind::missing);
const auto kSample = ElementsAre(ProblemKind::batch, ProblemKind::missing);

INSTANTIATE_TEST_SUITE_P(
    All, AuditFinds,
    Values(
        Breakage{"ASampleThatDoesNotExist", three_worlds(),
                 [](FakeRun& run) { run.record(0, 1, 2).ids[0] = 100; }, kSample,
                 HasSubstr("sample 100; there are 100 samples")},
        Breakage{"OtherBytesInAnotherEpochPhaseOrRank", three_worlds(),
                 [](FakeRun& run) { run.record(2, 0, 1).digests[5] ^= 1; }, kContent,
                 HasSubstr("phase 2, rank 0")},
        Breakage{"OtherBytesInABatchThatWasRolledBack", rolled_back(),
                 [](FakeRun& run) { run.record(0, 1, 5).digests[0] ^= 1; },
                 AllOf(Not(IsEmpty()), Each(ProblemKind::content))},
        Breakage{"ABatchThatCameOutDifferentlyWhenRunAgain", rolled_back(),
                 [](FakeRun& run) { run.record(0, 1, 4).swap_first_two(); }, kContent,
                 AllOf(HasSubstr("content: phase 0, rank 1, "), HasSubstr("compare phase 1, rank "))},
        Breakage{"ARankThatTookOneStepLess", three_worlds(), without(1, 1, 3), kLockstep,
                 HasSubstr("phase 1, rank 1, epoch 1, sample 10, step 8: ends before this batch")},
        Breakage{"AStepThatOneRankMissedInTheMiddle", three_worlds(), without(1, 1, 1), kLockstep,
                 HasSubstr("phase 1, rank 1, epoch 0, sample 90, step 6: has no batch here")},
        Breakage{"AStepThatOnlyOneRankTook", three_worlds(),
                 [](FakeRun& run) {
                   auto& records = run.file(1, 1).records;
                   records.insert(records.begin() + 1, records[0]);
                 },
                 ElementsAre(ProblemKind::lockstep)},
        Breakage{"RanksThatDisagreeAboutTheSizeOfABatch", three_worlds(),
                 [](FakeRun& run) { run.record(1, 2, 0).n = 11; }, _,
                 StartsWith("  lockstep: phase 1, rank 2, ")},
        Breakage{"SlicesThatAreNotEqual", three_worlds(), move_a_slot,
                 AllOf(SizeIs(3), Each(ProblemKind::batch)), HasSubstr("4 slots, not its share of 10")},
        Breakage{"ASlotOfABatchThatTwoRanksFill", by_shard(),
                 [](FakeRun& run) { run.record(0, 1, 2).slots.at(1) = run.record(0, 1, 2).slots[0]; }, _,
                 HasSubstr("16 samples fill")},
        Breakage{"ARankThatTakesTheTurnOfAnother", FakeRun(100, "partial", 1).interleaved().phase(3, 16),
                 [](FakeRun& run) { std::swap(run.record(0, 0, 2), run.record(0, 1, 2)); }, _,
                 HasSubstr("slots, not its share of 16")},
        Breakage{"ARecordWithoutItsSlots", by_shard(),
                 [](FakeRun& run) { run.record(0, 1, 2).slots.pop_back(); }, _, HasSubstr("digests and ")},
        Breakage{"AGlobalBatchThatIsLeftOut", three_worlds(),
                 [](FakeRun& run) {
                   for (const int rank : {0, 1}) without(0, rank, 2)(run);
                 },
                 kGap,
                 HasSubstr("epoch 0, sample 48, step 3: begins here, but the batches before lead to epoch 0, "
                           "sample 32, step 2")},
        Breakage{"AnEpochThatIsLeftOut", in_one_phase(10, "partial", 3, 10), without(0, 0, 1), kGap,
                 HasSubstr("epoch 1 lacks 10 of 10 samples")},
        Breakage{"APhaseThatResumedTooFarOn",
                 FakeRun(100, "partial", 1).phase(2, 16, 3).back_to(0, 64).phase(1, 16),
                 [](FakeRun& /*run*/) {}, kGap,
                 HasSubstr("phase 1, epoch 0, sample 64, step 4: begins here, but the batches before lead to "
                           "epoch 0, sample 48, step 3")},
        Breakage{"ATraceWithoutItsFirstPhase", three_worlds(),
                 [](FakeRun& run) {
                   for (const int rank : {0, 1}) run.remove(0, rank);
                 },
                 kGap},
        Breakage{"ARankWithoutAFile", three_worlds(), [](FakeRun& run) { run.remove(1, 2); },
                 ElementsAre(ProblemKind::files, ProblemKind::missing, ProblemKind::missing),
                 StartsWith("  files: phase 1, rank 2, ")},
        Breakage{"ABatchOfTheWrongSize", FakeRun(100, "partial", 1).phase(1, 10, 3).phase(1, 20),
                 [](FakeRun& run) { run.file(1, 0).batch = 10; }, kOneBatch,
                 HasSubstr("20 slots, not 10 (and 2 more like it)")},
        Breakage{"ACarriedBatchThatIsShortBeforeTheLast", in_one_phase(25, "partial", 3, 10),
                 [](FakeRun& run) { run.file(0, 0).tail = "carry"; }, kOneBatch},
        Breakage{"ABatchTooManyThatIsDropped", in_one_phase(100, "drop", 2, 16), without(0, 0, 5), kGap},
        Breakage{"PaddingThatIsNotMarked", in_one_phase(20, "pad", 1, 16),
                 [](FakeRun& run) { run.record(0, 0, 1).mask.assign(16, 0); }, Contains(ProblemKind::batch)},
        Breakage{"AMarkThatIsNotPadding", three_worlds(),
                 [](FakeRun& run) { run.record(0, 0, 0).mask[0] = 1; }, kSample},
        Breakage{"ARecordThatCannotBeRead", three_worlds(), with_last_words(R"({"event":"batch","phase":1)"),
                 kFormat, HasSubstr("p101r101.jsonl:6: not a JSON object")},
        Breakage{"ARecordWhoseNumberIsListsInLists", three_worlds(),
                 with_last_words(R"({"event":"batch","phase":)" + std::string(200'000, '[') +
                                 std::string(200'000, ']') + R"(,"rank":1})"),
                 kFormat, HasSubstr("\"phase\" is array")},
        Breakage{
            "ARecordInTheFileOfAnotherRank", three_worlds(),
            with_last_words(
                R"({"event":"batch","phase":1,"rank":2,"epoch":0,"first":0,"n":0,"ids":[],"digests":[]})"),
            _, HasSubstr("a record of phase 1, rank 2, in the file of another")},
        Breakage{"RanksThatStartedDifferently", three_worlds(),
                 [](FakeRun& run) {
                   run.file(1, 2).resumed_from = {0, 64};
                 },
                 ElementsAre(ProblemKind::start), HasSubstr("phase 1, rank 2")}),
    [](const auto& test) { return test.param.name; });

// ---- the whole trace ----

// Batches of another size have no place and size in common with those before, but each sample has its bytes.
TEST(Audit, OfABatchThatWasRolledBackAndRunAtAnotherSizeComparesTheBytesAlone) {
  FakeRun run = rolled_back(10);
  FakeRecord& record = run.record(0, 1, 4);
  record.swap_first_two();
  EXPECT_THAT(audit_of(run).problems, IsEmpty());
  record.digests[0] ^= 1;
  EXPECT_THAT(kinds(audit_of(run)), Contains(ProblemKind::content));
}

TEST(Audit, NoticesTwoFilesOfOneRank) {
  const TemporaryDirectory dir;
  three_worlds().write(dir.path());
  fs::copy_file(dir.path() / "p100r100.jsonl", dir.path() / "zzz.jsonl");
  EXPECT_THAT(kinds(audit(dir.path(), {.samples = {100}})), ElementsAre(ProblemKind::format));
}

TEST(Audit, RefusesTheTraceOfAnotherDatasetOrBatch) {
  const TemporaryDirectory dir;
  three_worlds().write(dir.path());
  EXPECT_THAT(text(audit(dir.path(), {.samples = {101}})), HasSubstr("a dataset of 100 samples, not 101"));
  EXPECT_THAT(text(audit(dir.path(), {.samples = {100}, .batch = 17})),
              HasSubstr("no phase has a global batch of 17"));
}

TEST(Audit, RefusesARunThatIsNotComplete) {
  FakeRun run(100, "partial", 2);
  run.phase(2, 16, 9);
  EXPECT_THAT(text(audit_of(run, {.complete = true})),
              HasSubstr("epoch 1, sample 32, step 9: the run stops within an epoch"));
  EXPECT_THAT(text(audit_of(three_worlds(), {.epochs = 3})),
              HasSubstr("the run has 2 complete epochs, not 3"));
}

TEST(Audit, ThrowsWhereThereIsNoTrace) {
  const TemporaryDirectory dir;
  EXPECT_THROW(audit(dir.path(), {.samples = {1}}), Error);
  EXPECT_THROW(audit(dir.path() / "nowhere", {.samples = {1}}), Error);
}

// ---- the same as another ----

AuditReport compared(const FakeRun& one, const FakeRun& other) {
  AuditReport report = audit_of(one);
  compare(report, audit_of(other), "other");
  return report;
}

TEST(Audit, FindsTheSameGlobalBatchesAtAnyWorld) {
  FakeRun other(100, "partial", 2);
  other.phase(1, 16, 5).phase(1, 10, 6).back_to(1, 20).phase(5, 16);
  EXPECT_THAT(compared(three_worlds(), other).problems, IsEmpty());
}

TEST(Audit, TellsWhereTwoTracesPart) {
  FakeRun other = three_worlds();
  other.record(1, 0, 1).swap_first_two();
  const AuditReport report = compared(three_worlds(), other);
  EXPECT_THAT(kinds(report), ElementsAre(ProblemKind::difference));
  EXPECT_THAT(text(report),
              HasSubstr("epoch 0, sample 90, step 6: another size, sample, mask or digest than in other"));
}

TEST(Audit, TellsThatATraceIsOnlyTheBeginningOfAnother) {
  FakeRun shorter(100, "partial", 2);
  shorter.phase(2, 16, 5);
  EXPECT_THAT(text(compared(shorter, three_worlds())), HasSubstr("5 global batches, where other has"));
}

// Nothing is known of what is in the other, so that nothing in it differs.
TEST(Audit, ComparesNothingWithATraceThatWasNotAudited) {
  const TemporaryDirectory dir;
  FakeRun smaller(99, "partial", 2);
  smaller.phase(2, 16).write(dir.path());
  const AuditReport other = audit(dir.path(), {.samples = {100}});
  EXPECT_THAT(kinds(other), ElementsAre(ProblemKind::start));
  AuditReport report = audit_of(three_worlds());
  compare(report, other, "other");
  EXPECT_THAT(kinds(report), ElementsAre(ProblemKind::start)) << "its own " << text(report);
  AuditReport turned = other;
  compare(turned, audit_of(three_worlds()), "other");
  EXPECT_THAT(kinds(turned), ElementsAre(ProblemKind::start));
}

}  // namespace rota::test::audit_finds_test
