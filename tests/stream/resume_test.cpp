// A stream loader's state in a checkpoint: in the same world a run goes on with the very batches.

#include "stream/numbered_stream.hpp"
#include "stream/stream_run.hpp"
#include "test.hpp"

namespace rota::test::resume_test {

using test::NumberedStream;
using test::Seen;

std::shared_ptr<const StreamSource> numbered() {
  return std::make_shared<NumberedStream>(std::vector<std::int64_t>{5, 0, 30, 2, 11});
}

std::map<std::string, std::shared_ptr<const StreamSource>> sources() {
  return {{"plain", numbered()},
          {"short buffer", shuffle_buffer(numbered(), 3, 1)},
          {"long buffer", shuffle_buffer(test::up_to_three(numbered()), 20, 1)},
          {"flat-mapped", test::up_to_three(test::two_of_three(numbered()))}};
}

class StreamResume : public ::testing::Test {
 protected:
  // Another program: all that is left of the one before is what it saved.
  StreamLoader go_on(std::shared_ptr<const StreamSource> source, StreamLoaderOptions options) {
    StreamLoader loader(std::move(source), std::move(options));
    CheckpointDirectory checkpoints({}, directory_.path());
    if (const auto newest = checkpoints.latest()) restore(loader, *newest);
    return loader;
  }
  void keep(const StreamLoader& loader) {
    CheckpointDirectory({}, directory_.path()).save_all(loader.position().step, loader);
  }
  Checkpoint newest() { return *CheckpointDirectory({}, directory_.path()).latest(); }

  test::TemporaryDirectory directory_;
};

TEST_F(StreamResume, AfterEachStepGoesOnWithTheVeryBatches) {
  for (const auto& [name, source] : sources()) {
    StreamLoader unbroken(source, {.global_batch_size = 4, .epochs = 2});
    const auto expected = test::batches_of(unbroken);
    const test::TemporaryDirectory directory;
    CheckpointDirectory checkpoints({}, directory.path());
    for (std::size_t k = 0; k < expected.size(); ++k) {
      StreamLoader loader(source, {.global_batch_size = 4, .epochs = 2, .workers = int(k % 3)});
      checkpoints.restore_all(loader);
      const auto batch = loader.next();
      ASSERT_TRUE(batch) << name;
      ASSERT_EQ(test::seen(*batch), expected[k]) << name << ", step " << k;
      checkpoints.save_all(loader.position().step, loader);
    }
  }
}

TEST_F(StreamResume, ALoaderInTheMidstOfReadingGoesBack) {
  const auto source = sources().at("long buffer");
  StreamLoader loader(source, {.global_batch_size = 4});
  for (int k = 0; k < 3; ++k) ASSERT_TRUE(loader.next());
  keep(loader);
  const auto rest = test::batches_of(loader);
  restore(loader, newest());
  EXPECT_EQ(loader.position().step, 3);
  EXPECT_EQ(test::batches_of(loader), rest);
}

TEST_F(StreamResume, MayChangeTheBatchSizeAndTheEpochs) {
  const auto source = sources().at("long buffer");
  test::ByShard all;
  StreamLoaderOptions options{.global_batch_size = 7};
  for (const std::int64_t batch : {7, 1, 12, 3}) {
    options.global_batch_size = batch;
    StreamLoader loader = go_on(source, options);
    for (int k = 0; k < 2; ++k) {
      if (const auto next = loader.next()) test::add(*next, all);
    }
    keep(loader);
  }
  options.epochs = 3;
  StreamLoader loader = go_on(source, options);
  while (const auto next = loader.next()) test::add(*next, all);
  EXPECT_EQ(all, test::whole(*source, 3));
}

TEST_F(StreamResume, OfARunThatHasEndedEnds) {
  StreamLoader loader(numbered(), {});
  while (loader.next()) continue;
  keep(loader);
  EXPECT_FALSE(go_on(numbered(), {}).next());
  EXPECT_TRUE(go_on(numbered(), {.epochs = 2}).next());
}

TEST_F(StreamResume, SavesARowForEachShardAndBlobsForThoseThatHaveThem) {
  StreamLoader loader(sources().at("short buffer"), {.global_batch_size = 4});
  ASSERT_TRUE(loader.next());
  keep(loader);
  const Checkpoint checkpoint = newest();
  EXPECT_THAT(checkpoint.tensor("loader/main/cursors").shape, ::testing::ElementsAre(5, 9 + 5));
  EXPECT_GT(checkpoint.tensor("loader/main/blobs").rows(), 0);
  const auto row = checkpoint.read<std::int64_t>("loader/main/cursors", {.first = 2, .count = 1});
  EXPECT_EQ(row[2], 1) << "samples delivered";
  EXPECT_EQ(row[6], 29) << "samples that remain";
}

TEST_F(StreamResume, RefusesAnotherDatasetAndNamesBoth) {
  StreamLoader loader(shuffle_buffer(numbered(), 3, 1), {});
  keep(loader);
  const auto refuses = [&](std::shared_ptr<const StreamSource> source, const char* why) {
    StreamLoader other(std::move(source), {});
    try {
      restore(other, newest());
      ADD_FAILURE() << why;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::mismatch);
      EXPECT_THAT(error.what(), HasSubstr(why));
    }
    EXPECT_TRUE(other.next()) << "it is as it was";
  };
  refuses(shuffle_buffer(numbered(), 3, 2), "fingerprint differs: the checkpoint has ");
  refuses(shuffle_buffer(std::make_shared<NumberedStream>(std::vector<std::int64_t>{5}), 3, 1),
          "shards differs: the checkpoint has 5, this loader has 1");
  refuses(numbered(), "numbers differs: the checkpoint has 5, this loader has 2");
}

TEST_F(StreamResume, RefusesACheckpointWithoutSuchALoader) {
  keep(StreamLoader(numbered(), {}));
  StreamLoader loader(numbered(), {});
  EXPECT_THROW(restore(loader, newest(), "other"), Error);
}

TEST_F(StreamResume, RefusesCursorsOfAnotherType) {
  StreamLoader loader(numbered(), {});
  Snapshot whole;
  save(loader, whole);
  CheckpointDirectory checkpoints({}, directory_.path());
  checkpoints.save(0, whole);
  const Checkpoint sound = *checkpoints.latest();
  Snapshot changed;
  changed.blob("loader/main/state", std::string(sound.blob("loader/main/state")));
  const std::vector<double> cursors(5 * 11);
  changed.tensor("loader/main/cursors", {11}, 5, cursors);
  checkpoints.save(1, changed);
  try {
    restore(loader, *checkpoints.latest());
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    EXPECT_THAT(error.what(), HasSubstr("cursors is not int64 [rows, 11]"));
  }
}

// Behind a long cursor some samples are read again.
std::shared_ptr<NumberedStream> with_long_cursors(std::int64_t length) {
  auto source = std::make_shared<NumberedStream>(std::vector<std::int64_t>{length});
  source->blob_bytes = 3000;
  return source;
}

TEST_F(StreamResume, ReadsAsManySamplesAgainAsACursorIsLong) {
  StreamLoader loader(with_long_cursors(400), {.global_batch_size = 1});
  for (int k = 0; k < 10; ++k) ASSERT_TRUE(loader.next());
  keep(loader);
  const auto source = with_long_cursors(400);
  std::int64_t read = 0;
  source->on_read = [&](StreamId) { ++read; };
  StreamLoader resumed = go_on(source, {.global_batch_size = 1, .workers = 0});
  const auto next = resumed.next();
  EXPECT_EQ(next->ids()[0].input, 10);
  EXPECT_GT(read, 1);
  EXPECT_LE(read, 1 + 3000 / 256);
}

TEST_F(StreamResume, TellsOfDataThatHasBecomeShorter) {
  StreamLoader loader(with_long_cursors(400), {.global_batch_size = 1});
  for (int k = 0; k < 10; ++k) ASSERT_TRUE(loader.next());
  keep(loader);
  StreamLoader resumed = go_on(with_long_cursors(9), {});
  try {
    resumed.next();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mismatch);
    EXPECT_THAT(error.what(), HasSubstr("go on behind sample 10: there are 9 now"));
  }
}

}  // namespace rota::test::resume_test
