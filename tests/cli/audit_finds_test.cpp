#include "cli/audit_fixture.hpp"
#include "test.hpp"

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

TEST(Audit, RefusesASampleThatDoesNotExist) {
  FakeRun run = three_worlds();
  run.record(0, 1, 2).ids[0] = 100;
  const AuditReport report = audit_of(run);
  EXPECT_THAT(kinds(report), ElementsAre(ProblemKind::batch, ProblemKind::missing));
  EXPECT_THAT(text(report), HasSubstr("sample 100; there are 100 samples"));
}

TEST(Audit, NoticesOtherBytesInAnotherEpochPhaseOrRank) {
  FakeRun run = three_worlds();
  run.record(2, 0, 1).digests[5] ^= 1;
  const AuditReport report = audit_of(run);
  EXPECT_THAT(kinds(report), ElementsAre(ProblemKind::content));
  EXPECT_THAT(text(report), HasSubstr("phase 2, rank 0"));
}

TEST(Audit, NoticesOtherBytesInABatchThatWasRolledBack) {
  FakeRun run(100, "partial", 2);
  run.phase(2, 16, 6).back_to(0, 64).phase(3, 16);
  run.record(0, 1, 5).digests[0] ^= 1;
  const auto found = kinds(audit_of(run));
  EXPECT_THAT(found, AllOf(Not(IsEmpty()), Each(ProblemKind::content)));
}

TEST(Audit, NoticesABatchThatCameOutDifferentlyWhenRunAgain) {
  FakeRun run(100, "partial", 2);
  run.phase(2, 16, 6).back_to(0, 64).phase(3, 16);
  run.record(0, 1, 4).swap_first_two();
  const AuditReport report = audit_of(run);
  EXPECT_THAT(kinds(report), ElementsAre(ProblemKind::content));
  EXPECT_THAT(text(report),
              AllOf(HasSubstr("content: phase 0, rank 1, "), HasSubstr("compare phase 1, rank ")));
}

// Batches of another size have no place and size in common with those before, but each sample has its bytes.
TEST(Audit, OfABatchThatWasRolledBackAndRunAtAnotherSizeComparesTheBytesAlone) {
  FakeRun run(100, "partial", 2);
  run.phase(2, 16, 6).back_to(0, 64).phase(3, 10);
  FakeRecord& record = run.record(0, 1, 4);
  record.swap_first_two();
  EXPECT_THAT(audit_of(run).problems, IsEmpty());
  record.digests[0] ^= 1;
  EXPECT_THAT(kinds(audit_of(run)), Contains(ProblemKind::content));
}

TEST(Audit, NoticesARankThatTookOneStepLess) {
  FakeRun run = three_worlds();
  run.file(1, 1).records.pop_back();
  const AuditReport report = audit_of(run);
  EXPECT_THAT(kinds(report), ElementsAre(ProblemKind::lockstep, ProblemKind::missing));
  EXPECT_THAT(text(report), HasSubstr("phase 1, rank 1, epoch 1, sample 10, step 8: ends before this batch"));
}

TEST(Audit, NoticesAStepThatOneRankMissedInTheMiddle) {
  FakeRun run = three_worlds();
  auto& records = run.file(1, 1).records;
  records.erase(records.begin() + 1);
  const AuditReport report = audit_of(run);
  EXPECT_THAT(kinds(report), ElementsAre(ProblemKind::lockstep, ProblemKind::missing));
  EXPECT_THAT(text(report), HasSubstr("phase 1, rank 1, epoch 0, sample 90, step 6: has no batch here"));
}

TEST(Audit, NoticesAStepThatOnlyOneRankTook) {
  FakeRun run = three_worlds();
  auto& records = run.file(1, 1).records;
  records.insert(records.begin() + 1, records[0]);
  EXPECT_THAT(kinds(audit_of(run)), ElementsAre(ProblemKind::lockstep));
}

TEST(Audit, NoticesRanksThatDisagreeAboutTheSizeOfABatch) {
  FakeRun run = three_worlds();
  run.record(1, 2, 0).n = 11;
  const AuditReport report = audit_of(run);
  ASSERT_THAT(report.problems, Not(IsEmpty()));
  EXPECT_THAT(to_string(report.problems[0]), StartsWith("lockstep: phase 1, rank 2, "));
}

TEST(Audit, NoticesSlicesThatAreNotEqual) {
  FakeRun run = three_worlds();
  FakeRecord& from = run.record(1, 1, 2);
  FakeRecord& to = run.record(1, 0, 2);
  to.ids.push_back(from.ids.front());
  to.digests.push_back(from.digests.front());
  to.mask.push_back(0);
  to.epochs.push_back(from.epochs.front());
  from.ids.erase(from.ids.begin());
  from.digests.erase(from.digests.begin());
  from.mask.erase(from.mask.begin());
  from.epochs.erase(from.epochs.begin());
  const AuditReport report = audit_of(run);
  EXPECT_THAT(kinds(report), SizeIs(3));
  EXPECT_THAT(kinds(report), Each(ProblemKind::batch));
  EXPECT_THAT(text(report), HasSubstr("4 slots, not its share of 10"));
}

TEST(Audit, NoticesASlotOfABatchThatTwoRanksFill) {
  FakeRun run(100, "partial", 1);
  run.by_shard().phase(3, 16);
  FakeRecord& record = run.record(0, 1, 2);
  ASSERT_GE(record.slots.size(), 2U);
  record.slots[1] = record.slots[0];
  EXPECT_THAT(text(audit_of(run)), HasSubstr("16 samples fill"));
}

TEST(Audit, NoticesARankThatTakesTheTurnOfAnother) {
  FakeRun run(100, "partial", 1);
  run.interleaved().phase(3, 16);
  std::swap(run.record(0, 0, 2), run.record(0, 1, 2));
  EXPECT_THAT(text(audit_of(run)), HasSubstr("slots, not its share of 16"));
}

TEST(Audit, RefusesARecordWithoutItsSlots) {
  FakeRun run(100, "partial", 1);
  run.by_shard().phase(3, 16);
  run.record(0, 1, 2).slots.pop_back();
  EXPECT_THAT(text(audit_of(run)), HasSubstr("digests and "));
}

TEST(Audit, NoticesAGlobalBatchThatIsLeftOut) {
  FakeRun run = three_worlds();
  for (int rank = 0; rank < 2; ++rank) {
    auto& records = run.file(0, rank).records;
    records.erase(records.begin() + 2);
  }
  const AuditReport report = audit_of(run);
  EXPECT_THAT(kinds(report), ElementsAre(ProblemKind::gap, ProblemKind::missing));
  EXPECT_THAT(text(report), HasSubstr("epoch 0, sample 48, step 3: begins here, but the batches before lead "
                                      "to epoch 0, sample 32, step 2"));
}

TEST(Audit, NoticesAnEpochThatIsLeftOut) {
  FakeRun run(10, "partial", 3);
  run.phase(1, 10);
  auto& records = run.file(0, 0).records;
  records.erase(records.begin() + 1);
  const AuditReport report = audit_of(run);
  EXPECT_THAT(kinds(report), ElementsAre(ProblemKind::gap, ProblemKind::missing));
  EXPECT_THAT(text(report), HasSubstr("epoch 1 lacks 10 of 10 samples"));
}

TEST(Audit, NoticesAPhaseThatResumedTooFarOn) {
  FakeRun run(100, "partial", 1);
  run.phase(2, 16, 3).back_to(0, 64).phase(1, 16);
  const AuditReport report = audit_of(run);
  EXPECT_THAT(kinds(report), ElementsAre(ProblemKind::gap, ProblemKind::missing));
  EXPECT_THAT(text(report),
              HasSubstr("phase 1, epoch 0, sample 64, step 4: begins here, but the batches before "
                        "lead to epoch 0, sample 48, step 3"));
}

TEST(Audit, NoticesATraceWithoutItsFirstPhase) {
  FakeRun run = three_worlds();
  run.remove(0, 0);
  run.remove(0, 1);
  EXPECT_THAT(kinds(audit_of(run)), ElementsAre(ProblemKind::gap, ProblemKind::missing));
}

TEST(Audit, NoticesARankWithoutAFile) {
  FakeRun run = three_worlds();
  run.remove(1, 2);
  const AuditReport report = audit_of(run);
  EXPECT_THAT(kinds(report), ElementsAre(ProblemKind::files, ProblemKind::missing, ProblemKind::missing));
  EXPECT_THAT(text(report), StartsWith("  files: phase 1, rank 2, "));
}

TEST(Audit, NoticesTwoFilesOfOneRank) {
  const TemporaryDirectory dir;
  three_worlds().write(dir.path());
  fs::copy_file(dir.path() / "p100r100.jsonl", dir.path() / "zzz.jsonl");
  EXPECT_THAT(kinds(audit(dir.path(), {.samples = {100}})), ElementsAre(ProblemKind::format));
}

TEST(Audit, NoticesABatchOfTheWrongSize) {
  FakeRun run(100, "partial", 1);
  run.phase(1, 10, 3).phase(1, 20);
  for (FakeFile& file : run.files()) file.batch = 10;
  const AuditReport report = audit_of(run);
  EXPECT_THAT(kinds(report), ElementsAre(ProblemKind::batch));
  EXPECT_THAT(text(report), HasSubstr("20 slots, not 10 (and 2 more like it)"));
}

TEST(Audit, LetsOnlyTheLastCarriedBatchBeShort) {
  FakeRun run(25, "partial", 3);
  run.phase(1, 10);
  for (FakeFile& file : run.files()) file.tail = "carry";
  EXPECT_THAT(kinds(audit_of(run)), ElementsAre(ProblemKind::batch));
}

TEST(Audit, LetsDropLeaveOutNoMore) {
  FakeRun run(100, "drop", 2);
  run.phase(1, 16);
  auto& records = run.file(0, 0).records;
  records.erase(records.begin() + 5);
  EXPECT_THAT(kinds(audit_of(run)), ElementsAre(ProblemKind::gap, ProblemKind::missing));
}

TEST(Audit, RefusesPaddingThatIsNotMarkedAndMarksThatAreNotPadding) {
  FakeRun unmarked(20, "pad", 1);
  unmarked.phase(1, 16).record(0, 0, 1).mask.assign(16, 0);
  EXPECT_THAT(kinds(audit_of(unmarked)), Contains(ProblemKind::batch));
  FakeRun marked = three_worlds();
  marked.record(0, 0, 0).mask[0] = 1;
  EXPECT_THAT(kinds(audit_of(marked)), ElementsAre(ProblemKind::batch, ProblemKind::missing));
}

TEST(Audit, RefusesARecordThatCannotBeRead) {
  FakeRun run = three_worlds();
  run.file(1, 1).last_words = "{\"event\":\"batch\",\"phase\":1\n";
  const AuditReport report = audit_of(run);
  EXPECT_THAT(kinds(report), ElementsAre(ProblemKind::format));
  EXPECT_THAT(text(report), HasSubstr("p101r101.jsonl:6: not a JSON object"));
}

TEST(Audit, RefusesARecordWhoseNumberIsListsInLists) {
  FakeRun run = three_worlds();
  run.file(1, 1).last_words = R"({"event":"batch","phase":)" + std::string(200'000, '[') +
                              std::string(200'000, ']') + R"(,"rank":1})" + "\n";
  const AuditReport report = audit_of(run);
  EXPECT_THAT(kinds(report), ElementsAre(ProblemKind::format));
  EXPECT_THAT(text(report), HasSubstr("\"phase\" is array"));
}

TEST(Audit, RefusesARecordInTheFileOfAnotherRank) {
  FakeRun run = three_worlds();
  run.file(1, 1).last_words =
      R"({"event":"batch","phase":1,"rank":2,"epoch":0,"first":0,"n":0,"ids":[],"digests":[]})"
      "\n";
  EXPECT_THAT(text(audit_of(run)), HasSubstr("a record of phase 1, rank 2, in the file of another"));
}

TEST(Audit, RefusesRanksThatStartedDifferently) {
  FakeRun run = three_worlds();
  run.file(1, 2).resumed_from = {0, 64};
  const AuditReport report = audit_of(run);
  EXPECT_THAT(kinds(report), ElementsAre(ProblemKind::start));
  EXPECT_THAT(text(report), HasSubstr("phase 1, rank 2"));
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
