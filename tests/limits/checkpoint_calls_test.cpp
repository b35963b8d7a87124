#include "limits/refusals.hpp"

namespace rota::test::checkpoint_calls_test {

const std::vector<float> kNumbers{1, 2, 3, 4};

TEST(SnapshotCalls, RefuseShapesThatAreNotThoseOfTheData) {
  const auto shaped = [](Numbers row, std::int64_t rows) { Snapshot().tensor("t", row, rows, kNumbers); };
  shaped({}, 4);
  shaped({4}, 1);
  refused({"\"t\""}, [&] { shaped({}, 5); });
  refused({"\"t\""}, [&] { shaped({}, 3); });
  refused({"\"t\""}, [&] { shaped({}, -4); });
  refused({"\"t\""}, [&] { shaped({-2, -2}, 1); });
  refused({"\"t\""}, [&] { shaped({kMost, kMost, 4}, 1); });
  refused({"\"t\""}, [&] { shaped({kTwo62, 4}, 4); });  // which wraps to the right size
  refused({"\"t\""}, [&] { shaped({0}, 4); });
}

TEST(SnapshotCalls, RefuseTypesRangesAndNamesThatCannotBe) {
  const auto bytes = std::as_bytes(std::span(kNumbers));
  Snapshot snapshot;
  const auto ranged = [&](RowRange rows) {
    snapshot.tensor("t", DType::float32, {}, std::span<const RowRange>(&rows, 1), bytes);
  };
  refused({"\"t\"", "type"}, [&] { snapshot.tensor("t", static_cast<DType>(99), {}, 1, bytes); });
  refused({"\"t\"", "type"}, [&] { snapshot.tensor("t", static_cast<DType>(200), {}, 1, bytes.first(0)); });
  refused({"\"t\""}, [&] { ranged({-1, 4}); });
  refused({"\"t\""}, [&] { ranged({kMost, 4}); });
  ranged({0, 4});
  refused({"\"t\""}, [&] { ranged({0, 4}); });
  snapshot.blob("b", "1");
  refused({"\"b\""}, [&] { snapshot.blob("b", "2"); });
  snapshot.rank_blob("b", "of a rank, which is another");
  refused({"worker 0 of 0"}, [&] { snapshot.worker_blob("b", 0, 0, ""); });
  refused({"worker -1 of 1"}, [&] { snapshot.worker_blob("b", -1, 1, ""); });
  refused({"worker 2 of 2"}, [&] { snapshot.worker_blob("b", 2, 2, ""); });
}

/// A directory with one checkpoint of step 7: tensor "t", float32 [4], and blobs "b" and "r".
class CheckpointCalls : public testing::Test {
 protected:
  CheckpointCalls() {
    Snapshot snapshot;
    snapshot.tensor("t", {}, 4, kNumbers);
    snapshot.blob("b", to_blob(std::int64_t{5}));
    snapshot.rank_blob("r", "mine");
    file_ = directory().save(7, snapshot).info.path;
  }
  CheckpointDirectory directory() const { return {{}, temporary_ / "c"}; }

  TemporaryDirectory temporary_;
  fs::path file_;
};

TEST_F(CheckpointCalls, ReadWhatIsThereAndNameWhatIsNot) {
  const Checkpoint c = open_checkpoint(file_);
  refused(kMissing, {"it has \"t\""}, [&] { c.read<float>(""); });
  refused(kMissing, {"tensor \"b\""}, [&] { c.read<float>("b"); });
  refused(ErrorCode::mismatch, {"float32"}, [&] { c.read<double>("t"); });
  EXPECT_THAT(c.read<float>("t", {0, 0}), IsEmpty());
  EXPECT_THAT(c.read<float>("t", {4, 0}), IsEmpty());
  for (const RowRange rows : {RowRange{3, 2}, RowRange{-1, 2}, RowRange{2, -1}, RowRange{1, kMost}}) {
    refused(kRange, {"\"t\""}, [&] { c.read<float>("t", rows); });
  }
  std::array<std::byte, 15> too_little{};
  refused({"room for 15"}, [&] { c.read("t", {0, 4}, too_little); });
  refused(kMissing, {"\"x\"", "it has \"b\""}, [&] { c.blob("x"); });
  refused(kMissing, {"\"r\""}, [&] { c.blob("r"); });
  EXPECT_FALSE(c.rank_blob("r", {0, 2}).has_value());
  EXPECT_FALSE(c.rank_blob("x", {0, 1}).has_value());
  EXPECT_THAT(c.dropped(2), SizeIs(1));
  EXPECT_THAT(c.dropped(1), IsEmpty());
  refused({"world_size is 0"}, [&] { c.dropped(0); });
  open_checkpoint(file_);  // while it is open
}

TEST_F(CheckpointCalls, RefuseBytesThatAreNotOfTheType) {
  const std::string blob = open_checkpoint(file_).blob("b");
  refused(kCorrupt, {"blob"}, [&] { from_blob<std::string>(blob); });
  refused(kCorrupt, {"end early"}, [] { from_blob<int>(""); });
  refused(kCorrupt, {"left over"}, [] { from_blob<int>(to_blob(1) + "x"); });
  std::string too_long = to_blob(std::string("abc"));
  too_long[7] = '\x7f';
  refused(kCorrupt, {"length"}, [&] { from_blob<std::string>(too_long); });
}

TEST_F(CheckpointCalls, NameAFileThatIsNone) {
  refused(kMissing, {"No such file"}, [] { open_checkpoint(""); });
  refused(kCorrupt, {"/tmp"}, [] { open_checkpoint("/tmp"); });
  refused(kCorrupt, {"/dev/null"}, [] { open_checkpoint("/dev/null"); });
  refused(kMissing, {"/nowhere/c.h5"}, [] { open_checkpoint("/nowhere/c.h5"); });
  refused(kMissing, {"/nowhere"}, [] { verify_checkpoint("/nowhere/c.h5"); });
  EXPECT_FALSE(verify_checkpoint("/dev/null").is_good());
}

TEST_F(CheckpointCalls, NameADirectoryThatIsNoneOrIsInUse) {
  refused({"path is empty"}, [] { CheckpointDirectory({}, ""); });
  refused(ErrorCode::io, {"/dev/null"}, [] { CheckpointDirectory({}, "/dev/null"); });
  refused(ErrorCode::io, {"/dev/null"}, [] { CheckpointDirectory({}, "/dev/null/c"); });
  refused(ErrorCode::io, {".h5: it is a file"}, [&] { CheckpointDirectory({}, file_); });
  {
    const auto first = directory();
    refused(ErrorCode::busy, {"/c: another job"}, [&] { directory(); });
  }
  EXPECT_THAT(directory().list(), SizeIs(1));
}

TEST_F(CheckpointCalls, SaveAnyStepFromZeroOn) {
  auto c = directory();
  for (const std::int64_t step : {std::int64_t{8}, std::int64_t{7}, std::int64_t{0}, kMost}) {
    EXPECT_EQ(c.save(step, Snapshot()).info.step, step);
  }
  refused({"step is -1"}, [&] { c.save(-1, Snapshot()); });
  Snapshot twice;
  const std::vector<RowRange> rows{{0, 2}, {1, 2}};
  twice.tensor("t", DType::float32, {}, rows, std::as_bytes(std::span(kNumbers)));
  refused({"\"t\""}, [&] { c.save(8, twice); });
}

TEST_F(CheckpointCalls, OfADirectoryAnswerWhereThereIsNothing) {
  auto c = directory();
  refused(kMissing, {"checkpoint 99"}, [&] { c.open(99); });
  refused(kMissing, {"checkpoint -1"}, [&] { c.open(-1); });
  EXPECT_FALSE(c.wait().has_value());
  EXPECT_TRUE(c.poll());
  c.save_async(8, Snapshot());
  EXPECT_TRUE(c.wait().has_value());
  EXPECT_FALSE(c.wait().has_value());
  for (const auto& info : c.list()) fs::remove(info.path);
  EXPECT_FALSE(c.latest().has_value());
  fs::remove_all(temporary_ / "c");
  refused(kMissing, {"/c: No such file"}, [&] { c.save(8, Snapshot()); });
}

}  // namespace rota::test::checkpoint_calls_test
