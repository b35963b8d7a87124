// What goes into a checkpoint comes out of it, in one process without MPI.

#include "checkpoint_fixture.hpp"

namespace rota::test::round_trip_test {

class RoundTrip : public CheckpointTest {
 protected:
  Checkpoint save_and_reopen(const Snapshot& snapshot) {
    auto directory = open();
    directory.save(1, snapshot);
    return *directory.latest();
  }
};

TEST_F(RoundTrip, KeepsEveryElementType) {
  constexpr unsigned kTypes = static_cast<unsigned>(DType::float64) + 1;
  const auto rows_of = [](unsigned i) { return make_rows(0, 5, 3 * size_of(static_cast<DType>(i)), i); };
  Snapshot snapshot;
  for (unsigned i = 0; i < kTypes; ++i) {
    snapshot.tensor(to_string(static_cast<DType>(i)), static_cast<DType>(i), {3}, 5, rows_of(i));
  }
  const auto checkpoint = save_and_reopen(snapshot);
  ASSERT_THAT(checkpoint.tensors(), SizeIs(kTypes));
  for (unsigned i = 0; i < kTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(checkpoint.tensor(to_string(dtype)).dtype, dtype);
    EXPECT_EQ(read_rows(checkpoint, to_string(dtype), {0, 5}, 3 * size_of(dtype)), rows_of(i));
  }
}

TEST_F(RoundTrip, KeepsShapesOfAnyNumberOfDimensions) {
  const std::vector<Numbers> row_shapes{{}, {4}, {2, 3}, {2, 1, 3}, {3, 2, 2, 2}, {3, 0}};
  Snapshot snapshot;
  for (const auto& shape : row_shapes) {
    std::size_t row_bytes = 2;
    for (const auto length : shape) row_bytes *= static_cast<std::size_t>(length);
    snapshot.tensor("rank" + std::to_string(&shape - row_shapes.data()), DType::int16, shape, 7,
                    make_rows(0, 7, row_bytes));
  }
  const auto checkpoint = save_and_reopen(snapshot);
  EXPECT_THAT(checkpoint.tensor("rank0").shape, ElementsAre(7));
  EXPECT_THAT(checkpoint.tensor("rank4").shape, ElementsAre(7, 3, 2, 2, 2));
  EXPECT_THAT(checkpoint.tensor("rank5").shape, ElementsAre(7, 3, 0));
  EXPECT_EQ(read_rows(checkpoint, "rank3", {0, 7}, 12), make_rows(0, 7, 12));
  EXPECT_EQ(read_rows(checkpoint, "rank3", {2, 3}, 12), make_rows(2, 3, 12));
}

TEST_F(RoundTrip, ReadsTypedElements) {
  const std::vector<double> values{1.5, -0.0, std::numeric_limits<double>::infinity(), 4, 5, 6};
  Snapshot snapshot;
  snapshot.tensor("values", {2}, 3, std::span<const double>(values));
  const auto checkpoint = save_and_reopen(snapshot);
  EXPECT_EQ(checkpoint.read<double>("values"), values);
  EXPECT_THAT(checkpoint.read<double>("values", {1, 1}), ElementsAre(values[2], 4));
  EXPECT_TRUE(std::signbit(checkpoint.read<double>("values")[1]));
  checkpoint.require_shape("values", {3, 2});
  for (const auto& [rows, columns] : {std::pair{4, 2}, {3, 1}, {2, 3}}) {
    EXPECT_ERROR(checkpoint.require_shape("values", {rows, columns}), mismatch,
                 {"it has the shape [3, 2], and [" + std::to_string(rows)});
  }
  EXPECT_ERROR(checkpoint.require_shape("values", {6}), mismatch, {"[6]"});
}

TEST_F(RoundTrip, TakesContiguousRangesOfAnyElementType) {
  std::vector<float> weights{1, 2, 3, 4, 5, 6};
  const std::array<std::int16_t, 2> ids{7, -8};
  Snapshot snapshot;
  snapshot.tensor("vector", {3}, 2, weights);
  snapshot.tensor("span", {3}, 2, std::span<float>(weights));
  snapshot.tensor("fixed", {}, 6, std::span<float, 6>(weights));
  snapshot.tensor("array", {}, 2, ids);
  weights[5] = 60;  // viewed, not copied
  const auto checkpoint = save_and_reopen(snapshot);
  for (const char* name : {"vector", "span", "fixed"})
    EXPECT_EQ(checkpoint.read<float>(name), weights) << name;
  EXPECT_THAT(checkpoint.read<std::int16_t>("array"), ElementsAre(7, -8));
}

TEST_F(RoundTrip, TakesOverBytesOnlyWhereTheyAreMovedIn) {
  Bytes rows = make_rows(0, 4, 8);
  Bytes moved = rows;
  Snapshot snapshot;
  snapshot.tensor("viewed", DType::int64, {}, 4, rows);
  snapshot.tensor("owned", DType::int64, {}, 4, std::move(moved));
  rows[0] ^= std::byte{1};
  const auto checkpoint = save_and_reopen(snapshot);
  EXPECT_EQ(read_rows(checkpoint, "viewed", {0, 4}, 8), rows);
  EXPECT_EQ(read_rows(checkpoint, "owned", {0, 4}, 8), make_rows(0, 4, 8));
}

template <typename Data>
concept IsTensorData = requires(Snapshot snapshot, Data&& data) {
  snapshot.tensor("t", {}, 1, std::forward<Data>(data));
};
static_assert(IsTensorData<std::vector<float>&> && IsTensorData<std::span<const double>>);
static_assert(!IsTensorData<std::vector<float>> && !IsTensorData<std::vector<bool>&>);

TEST_F(RoundTrip, KeepsTensorsOfManyExtents) {
  const std::size_t row_bytes = 1'000'003;
  Snapshot snapshot;
  snapshot.tensor("long/rows", DType::uint8, {1'000'003}, 7, make_rows(0, 7, row_bytes));
  snapshot.tensor("longer/row", DType::uint8, {3'000'000}, 1, make_rows(0, 1, 3'000'000, 1));
  const auto checkpoint = save_and_reopen(snapshot);
  EXPECT_EQ(read_rows(checkpoint, "long/rows", {3, 4}, row_bytes), make_rows(3, 4, row_bytes));
  EXPECT_EQ(read_rows(checkpoint, "longer/row", {0, 1}, 3'000'000), make_rows(0, 1, 3'000'000, 1));
}

TEST_F(RoundTrip, KeepsBlobsOfAllKinds) {
  const std::string zeros(5'000'000, '\0');
  const Bytes noise = make_rows(0, 1, 200'000);
  const std::string noisy(reinterpret_cast<const char*>(noise.data()), noise.size());
  Snapshot snapshot;
  snapshot.blob("empty", "");
  snapshot.blob("zeros", zeros);
  snapshot.blob("some/noise", noisy);
  const auto checkpoint = save_and_reopen(snapshot);
  EXPECT_EQ(checkpoint.blob("empty"), "");
  EXPECT_EQ(checkpoint.blob("zeros"), zeros);
  EXPECT_EQ(checkpoint.blob("some/noise"), noisy);
  EXPECT_LT(checkpoint.info().bytes, 300'000);
  EXPECT_TRUE(checkpoint.has_blob("zeros"));
  EXPECT_FALSE(checkpoint.has_blob("noise"));
}

TEST_F(RoundTrip, HandsRankBlobsOnlyToTheSameWorld) {
  Snapshot snapshot;
  snapshot.rank_blob("rng", "state of rank 0");
  for (const int worker : {0, 1}) snapshot.worker_blob("rng", worker, 2, "worker " + std::to_string(worker));
  snapshot.rank_blob("x/worker-list-of-hosts", "no worker's");
  snapshot.blob("rng", "of the job");
  const auto checkpoint = save_and_reopen(snapshot);
  EXPECT_THAT(checkpoint.rank_blob("rng", {.rank = 0, .size = 1}), Optional(std::string("state of rank 0")));
  EXPECT_EQ(checkpoint.rank_blob("rng", {.rank = 0, .size = 2}), std::nullopt);
  EXPECT_EQ(checkpoint.blob("rng"), "of the job");
  const World alone{};
  EXPECT_THAT(checkpoint.worker_blob("rng", 1, 2, alone), Optional(std::string("worker 1")));
  EXPECT_EQ(checkpoint.worker_blob("rng", 1, 3, alone), std::nullopt);
  EXPECT_ERROR(checkpoint.worker_blob("rng", 2, 2, alone), invalid_argument, {"no worker 2 of 2"});
  ASSERT_THAT(checkpoint.blobs(), SizeIs(5));
  EXPECT_EQ(checkpoint.blobs()[0].rank, -1);
  EXPECT_THAT(checkpoint.dropped(1, 2), SizeIs(0));
  EXPECT_THAT(checkpoint.dropped(2, 2), SizeIs(4));
  ASSERT_THAT(checkpoint.dropped(1, 3), SizeIs(2));
  EXPECT_EQ(checkpoint.dropped(1, 3)[1].name, "rng/worker-1-of-2");
}

TEST_F(RoundTrip, SaysWhereACheckpointOfNothingComesFrom) {
  auto directory = open();
  const auto first = directory.save(10, {}).info;
  const auto second = directory.save(20, {}).info;
  EXPECT_EQ(first.parent, -1);
  EXPECT_EQ(second.parent, first.serial);
  EXPECT_EQ(second.step, 20);
  EXPECT_EQ(second.run_id, first.run_id);
  const auto opened = open_checkpoint(second.path);
  EXPECT_EQ(opened.info().serial, second.serial);
  EXPECT_EQ(opened.info().bytes, static_cast<std::int64_t>(fs::file_size(second.path)));
  EXPECT_EQ(opened.info().world_size, 1);
  EXPECT_THAT(opened.tensors(), IsEmpty());
  EXPECT_THAT(opened.blobs(), IsEmpty());
}

TEST_F(RoundTrip, ReadsOnAfterTheFileIsDropped) {
  Snapshot snapshot;
  snapshot.tensor("w", DType::int32, {}, 4, make_rows(0, 4, 4));
  const auto checkpoint = save_and_reopen(snapshot);
  fs::remove(checkpoint.info().path);
  EXPECT_EQ(read_rows(checkpoint, "w", {0, 4}, 4), make_rows(0, 4, 4));
}

TEST(SnapshotNames, MustBePathsThatDoNotCollide) {
  Snapshot snapshot;
  const auto add = [&](std::string_view name) { snapshot.tensor(name, DType::int8, {}, 0, Bytes{}); };
  for (const std::string& bad :
       std::vector<std::string>{"", "/", "/a", "a/", "a//b", ".", "a/../b", "a b", "ä", "a\n", "rota",
                                "rota/x", std::string("a\0b", 3), std::string(5000, 'n')}) {
    EXPECT_ERROR(add(bad), invalid_argument, {"a name is components"});
    EXPECT_ERROR(snapshot.blob(bad, ""), invalid_argument, {"blob"});
  }
  add("a/b");
  for (const auto* taken : {"a/b", "a", "a/b/c"}) {
    EXPECT_ERROR(add(taken), invalid_argument, {"a/b"});
  }
  add("a/b-c");
  add("Aa0_.-/b");
}

TEST(SnapshotData, MustFitItsShape) {
  const Bytes four(4);
  const auto expect = [&](Numbers shape, std::int64_t rows, const char* why) {
    EXPECT_ERROR(Snapshot().tensor("t", DType::int16, shape, rows, std::span(four)), invalid_argument, {why});
  };
  expect({}, 3, "4 bytes given");
  expect({-1}, 1, "negative");
  expect({}, -2, "-2 rows");
  expect({std::int64_t{1} << 40, std::int64_t{1} << 40}, 1, "too large");
  expect(Numbers(32, 1), 2, "31");
}

}  // namespace rota::test::round_trip_test
