#include "moved_from.hpp"
#include "source/told_source.hpp"

namespace rota::test::moved_from_test {

Loader make_loader() { return {counting(100), {.global_batch_size = 10, .shuffle = Shuffle::none}}; }

void expect_empty(const Batch& batch) {
  EXPECT_EQ(batch.size() + batch.real(), 0);
  EXPECT_TRUE(batch.ids().empty() && batch.kinds().empty() && batch.epochs().empty());
  EXPECT_TRUE(batch.datasets().empty() && batch.slots().empty() && batch.fields().empty());
  expect_refused("a batch", {[&] { (void)batch.start(); }, [&] { (void)batch.global_size(); },
                             [&] { (void)batch.global_real(); }, [&] { (void)batch.tensor(0); },
                             [&] { (void)batch.tensor("x"); }, [&] { (void)batch.bytes(0, 0); }});
}

// NOLINTBEGIN(bugprone-use-after-move,hicpp-invalid-access-moved): what is tested

TEST(MovedFrom, BatchIsAsEmptyAsADefaultMadeOne) {
  expect_empty(Batch());
  Loader loader = make_loader();
  Batch from = *loader.next();
  Batch to = std::move(from);
  expect_empty(from);
  EXPECT_EQ(to.ids()[9].value, 9);
  from = *loader.next();
  to = std::move(from);
  expect_empty(from);
  EXPECT_EQ(to.ids()[9].value, 19);
}

TEST(MovedFrom, BatchMayBeMovedToItself) {
  Loader loader = make_loader();
  Batch batch = *loader.next();
  Batch& same = batch;
  batch = std::move(same);
  EXPECT_EQ(batch.ids()[9].value, 9);
}

TEST(MovedFrom, LoaderRefusesEveryCall) {
  Loader from = make_loader();
  const std::string text = state(from);
  const Loader to = std::move(from);
  Snapshot snapshot;
  expect_refused("a loader", {[&] { (void)from.next(); },       [&] { from.warm_up(); },
                              [&] { (void)from.position(); },   [&] { from.seek({}); },
                              [&] { from.rescale(World{}); },   [&] { from.set_global_batch_size(3); },
                              [&] { from.set_weights({}); },    [&] { (void)from.mixture(); },
                              [&] { (void)from.world(); },      [&] { (void)from.options(); },
                              [&] { (void)from.source(); },     [&] { (void)from.fingerprint(); },
                              [&] { (void)from.datasets(); },   [&] { (void)from.first_id(0); },
                              [&] { from.cursors(0, {}); },     [&] { (void)from.stats(); },
                              [&] { (void)from.skipped(); },    [&] { from.begin(); },
                              [&] { (void)from.when({0}, 0); }, [&] { (void)state(from); },
                              [&] { restore(from, text); },     [&] { save(from, snapshot); }});
  expect_refused(
      "a loader",
      {[&] { from.seek({}, MixtureState{}); }, [&] { from.settle(Batch()); }, [&] { from.settle({}, {}); },
       [&] { from.drop(Batch(), ""); }, [&] { from.drop({}, {}, ""); }, [&] { from.again(Batch()); },
       [&] { from.again({}, {}); }, [&] { from.again(); }, [&] { (void)from.try_settle({}, {}); },
       [&] { (void)from.dropped(); }, [&] { from.merge(Communicator()); }});
}

TEST(MovedFrom, LoaderGoesOnWhereItWasMovedToAndMayBeFilledAgain) {
  Loader from = make_loader();
  (void)from.next();
  Loader to = std::move(from);
  EXPECT_EQ((*to.next()).start().step, 1);
  from = std::move(to);
  EXPECT_EQ((*from.next()).start().step, 2);
  to = make_loader();
  EXPECT_EQ((*to.next()).start().step, 0);
  Loader& same = to;
  to = std::move(same);
  EXPECT_EQ((*to.next()).start().step, 1);
}

TEST(MovedFrom, SnapshotRefusesEveryCall) {
  Snapshot from;
  Snapshot to = std::move(from);
  const std::vector<float> row(1);
  const std::vector<RowRange> rows{{.first = 0, .count = 1}};
  const auto bytes = std::as_bytes(std::span(row));
  expect_refused("a snapshot", {[&] { from.tensor("x", {}, 1, row); },
                                [&] { from.tensor("x", DType::float32, {}, 1, bytes); },
                                [&] { from.tensor("x", DType::float32, {}, rows, bytes); },
                                [&] { from.tensor("x", DType::uint8, {}, 1, std::vector<std::byte>(1)); },
                                [&] { from.tensor("x", DType::uint8, {}, rows, std::vector<std::byte>(1)); },
                                [&] { from.blob("x", ""); }, [&] { from.rank_blob("x", ""); },
                                [&] { from.worker_blob("x", 0, 1, ""); }});
  from = std::move(to);
  from.blob("x", "");
}

TEST(MovedFrom, CheckpointDirectoryRefusesEveryCallButPoll) {
  const TemporaryDirectory home;
  CheckpointDirectory from(Communicator(), home.path() / "checkpoints");
  CheckpointDirectory to = std::move(from);
  Loader loader = make_loader();
  const Snapshot snapshot;
  expect_refused(
      "a directory of checkpoints",
      {[&] { from.save(0, snapshot); }, [&] { from.save_async(0, {}); }, [&] { from.wait(); },
       [&] { from.save_all(0, loader); }, [&] { from.save_all_async(0, loader); }, [&] { from.latest(); },
       [&] { from.restore_all(loader); }, [&] { (void)from.rejected(); }, [&] { from.open(0); },
       [&] { from.list(); }, [&] { (void)from.path(); }, [&] { (void)from.is_locked(); }});
  EXPECT_TRUE(from.poll());
  from = std::move(to);
  EXPECT_TRUE(from.list().empty());
}

TEST(MovedFrom, CheckpointRefusesEveryCall) {
  const TemporaryDirectory home;
  Loader loader = make_loader();
  CheckpointDirectory directory(Communicator(), home.path());
  directory.save_all(0, loader);
  Checkpoint from = directory.open(0);
  const Checkpoint to = std::move(from);
  expect_refused("a checkpoint",
                 {[&] { (void)from.info(); }, [&] { (void)from.tensors(); }, [&] { (void)from.blobs(); },
                  [&] { (void)from.tensor("x"); }, [&] { (void)from.has_tensor("x"); },
                  [&] { (void)from.has_blob("x"); }, [&] { from.read("x", {}, {}); },
                  [&] { (void)from.read<float>("x"); }, [&] { (void)from.blob("x"); },
                  [&] { (void)from.rank_blob("x", {}); }, [&] { (void)from.worker_blob("x", 0, 1, {}); },
                  [&] { (void)from.dropped(1); }, [&] { restore(loader, from); }});
  EXPECT_TRUE(to.has_blob("loader/main/state"));
}

// NOLINTEND(bugprone-use-after-move,hicpp-invalid-access-moved)

}  // namespace rota::test::moved_from_test
