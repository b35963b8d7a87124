// A stream loader's state, in a checkpoint or as a text: in the same world a run goes on with the very
// batches, and what cannot be a state is not believed.

#include <nlohmann/json.hpp>

#include "resume/saved_state.hpp"
#include "source/reading.hpp"
#include "stream/dispatched.hpp"

namespace rota::test::resume_test {

using nlohmann::json;

const Numbers kLengths{5, 0, 30, 2, 11};

std::map<std::string, std::shared_ptr<const StreamSource>> sources() {
  return {{"plain", numbered(kLengths)},
          {"short buffer", shuffle_buffer(numbered(kLengths), 3, 1)},
          {"long buffer", shuffle_buffer(up_to_three(numbered(kLengths)), 20, 1)},
          {"flat-mapped", up_to_three(two_of_three(numbered(kLengths)))}};
}

class StreamResume : public Test {
 protected:
  // Another program: all that is left of the one before is what it saved.
  StreamLoader go_on(std::shared_ptr<const StreamSource> source, StreamLoaderOptions options) {
    StreamLoader loader(std::move(source), std::move(options));
    checkpoints_.restore_all(loader);
    return loader;
  }
  void keep(const StreamLoader& loader) { checkpoints_.save_all(loader.position().step, loader); }

  TemporaryDirectory directory_;
  CheckpointDirectory checkpoints_{{}, directory_.path()};
};

// Each in a program of its own.
TEST_F(StreamResume, AfterEachStepGoesOnWithTheVeryBatches) {
  for (const auto& [name, source] : sources()) {
    StreamLoader unbroken(source, {.global_batch_size = 4, .epochs = 2});
    const auto expected = batches_of(unbroken);
    for (const bool hands_on_text : {false, true}) {
      const TemporaryDirectory directory;
      CheckpointDirectory checkpoints({}, directory.path());
      std::string text = state(StreamLoader(source, {}));
      for (std::size_t k = 0; k < expected.size(); ++k) {
        StreamLoader loader(source, {.global_batch_size = 4, .epochs = 2, .workers = int(k % 3)});
        checkpoints.restore_all(loader);
        if (hands_on_text) restore(loader, json::parse(text).dump(1));  // another order of keys
        const auto batch = loader.next();
        ASSERT_TRUE(batch) << name;
        ASSERT_EQ(seen(*batch), expected[k]) << name << ", step " << k;
        text = state(loader);
        if (!hands_on_text) checkpoints.save_all(loader.position().step, loader);
      }
    }
  }
}

TEST_F(StreamResume, ALoaderInTheMidstOfReadingGoesBack) {
  StreamLoader loader(sources().at("long buffer"), {.global_batch_size = 4});
  for (int k = 0; k < 3; ++k) ASSERT_TRUE(loader.next());
  keep(loader);
  const auto rest = batches_of(loader);
  checkpoints_.restore_all(loader);
  EXPECT_EQ(loader.position().step, 3);
  EXPECT_EQ(batches_of(loader), rest);
}

TEST_F(StreamResume, MayChangeTheBatchSizeAndTheEpochs) {
  const auto source = sources().at("long buffer");
  SeenRows all;
  for (const std::int64_t size : {7, 1, 12, 3}) {
    StreamLoader loader = go_on(source, {.global_batch_size = size, .epochs = size == 3 ? 3 : 1});
    for (int k = 0; k < 2 || size == 3; ++k) {
      const auto batch = loader.next();
      if (!batch) break;
      add(*batch, all);
    }
    keep(loader);
  }
  EXPECT_EQ(sorted(all), whole(*source, 3));
}

TEST_F(StreamResume, OfARunThatHasEndedEnds) {
  StreamLoader loader(numbered(kLengths), {});
  while (loader.next()) continue;
  keep(loader);
  EXPECT_FALSE(go_on(numbered(kLengths), {}).next());
  EXPECT_TRUE(go_on(numbered(kLengths), {.epochs = 2}).next());
}

TEST_F(StreamResume, SavesARowForEachShardAndBlobsForThoseThatHaveThem) {
  StreamLoader loader(sources().at("short buffer"), {.global_batch_size = 4});
  ASSERT_TRUE(loader.next());
  keep(loader);
  const Checkpoint checkpoint = *checkpoints_.latest();
  EXPECT_THAT(checkpoint.tensor("loader/main/cursors").shape, ElementsAre(5, 9 + 5));
  EXPECT_GT(checkpoint.tensor("loader/main/blobs").rows(), 0);
  const auto row = checkpoint.read<std::int64_t>("loader/main/cursors", {.first = 2, .count = 1});
  EXPECT_EQ(row[2], 1) << "samples delivered";
  EXPECT_EQ(row[6], 29) << "samples that remain";
}

// Behind a long cursor some samples are read again.
class LongCursors : public StreamResume {
 protected:
  LongCursors() {
    StreamLoader loader(with(400), {.global_batch_size = 1});
    for (int k = 0; k < 10; ++k) static_cast<void>(loader.next());
    keep(loader);
  }
  static std::shared_ptr<NumberedStream> with(std::int64_t length) {
    auto source = numbered({length});
    source->blob_bytes = 3000;
    return source;
  }
};

TEST_F(LongCursors, HaveAsManySamplesReadAgainAsTheyAreLong) {
  const auto source = with(400);
  std::int64_t read = 0;
  source->on_read = [&](StreamId) { ++read; };
  StreamLoader resumed = go_on(source, {.global_batch_size = 1, .workers = 0});
  const auto next = resumed.next();
  EXPECT_EQ(next->stream_ids()[0].input, 10);
  EXPECT_GT(read, 1);
  EXPECT_LE(read, 1 + 3000 / 256);
}

TEST_F(LongCursors, TellOfDataThatHasBecomeShorter) {
  StreamLoader resumed = go_on(with(9), {});
  EXPECT_ERROR(resumed.next(), mismatch, {"go on behind sample 10: there are 9 now"});
}

// ---- texts ----

std::shared_ptr<const StreamSource> counted(const Numbers& lengths, std::atomic<std::int64_t>& reads) {
  auto source = numbered(lengths);
  source->on_read = [&reads](StreamId) { ++reads; };
  return source;
}

template <typename Change>
std::string changed(const std::string& text, Change change) {
  json state = json::parse(text);
  change(state);
  state["digest"] = digest_of(state);  // as if it had been so all along
  return state.dump();
}

// Each rank looks at a part of it, and none may take what another one refuses.
TEST(StreamText, IsRefusedWhereverItWasChanged) {
  StreamLoader loader(sources().begin()->second, {.global_batch_size = 4});
  static_cast<void>(loader.next());
  const std::string text = state(loader);
  std::size_t changes = 0;
  for (std::size_t at = text.find("tensors"); at < text.size(); ++at) {
    if (text[at] < '0' || text[at] > '9') continue;
    std::string other = text;
    other[at] = text[at] == '9' ? '8' : static_cast<char>(text[at] + 1);
    ASSERT_THAT(error_of([&] { restore(loader, other); }), is_error(corrupt, {})) << at;
    ++changes;
  }
  EXPECT_GT(changes, 20U);
}

TEST(StreamText, IsShortForEachShardAndCarriesTheBlobs) {
  const auto size_of = [](std::size_t shards, std::size_t blob_bytes) {
    const auto source = numbered(Numbers(shards, 2'000'000));
    source->blob_bytes = blob_bytes;
    StreamLoader loader(source, {.global_batch_size = static_cast<std::int64_t>(shards), .workers = 0});
    for (int k = 0; k < 2; ++k) static_cast<void>(loader.next());
    return state(loader).size();
  };
  const std::size_t one = size_of(1, 0);
  EXPECT_LE(one, 500U);
  EXPECT_LE(size_of(1001, 0) - one, 1000U * 65);
  EXPECT_LE(size_of(101, 300) - size_of(101, 0), 100U * 410 + 1000);
}

/// A loader that has read on, and what it would deliver next.
class RefusedStream : public Test {
 protected:
  RefusedStream() {
    for (int k = 0; k < 3; ++k) seen_.push_back(seen(*loader_.next()));
    text_ = state(loader_);
  }
  void refuses(ErrorCode code, const std::string& why, const std::string& text) {
    EXPECT_ERROR(restore(loader_, text), code, {why});
  }
  template <typename Change>
  void refuses_changed(const std::string& why, Change change) {
    refuses(corrupt, why, changed(text_, change));
  }
  void refuses_number(std::size_t column, std::initializer_list<std::int64_t> values) {
    for (const std::int64_t value : values) {
      refuses_changed("the cursor of shard 2 cannot be one",
                      [&](json& state) { state["tensors"]["cursors"][2][column] = value; });
    }
  }
  /// The rest is what it would have been, and nothing was read twice.
  void expect_undisturbed() {
    while (const auto batch = loader_.next()) seen_.push_back(seen(*batch));
    StreamLoader whole(numbered(kLengths), options_);
    EXPECT_EQ(seen_, batches_of(whole));
    EXPECT_EQ(reads_, 48);
  }

  StreamLoaderOptions options_{.global_batch_size = 4, .workers = 2};
  std::atomic<std::int64_t> reads_ = 0;
  StreamLoader loader_{counted(kLengths, reads_), options_};
  std::vector<std::vector<Seen>> seen_;
  std::string text_;
};

TEST_F(RefusedStream, OfAnotherSourceIsAsItWas) {
  const TemporaryDirectory directory;
  CheckpointDirectory checkpoints({}, directory.path());
  const auto refuses_state_of = [&](std::shared_ptr<const StreamSource> source, const std::string& what,
                                    const std::string& has) {
    const StreamLoader other(std::move(source), {});
    refuses(mismatch, what + " differs: the text has " + has, state(other));
    checkpoints.save_all(0, other);
    EXPECT_ERROR(restore(loader_, *checkpoints.latest()), mismatch,
                 {what + " differs: the checkpoint has " + has});
  };
  refuses_state_of(shuffle_buffer(numbered(kLengths), 3, 1), "cursor's numbers", "5, this loader has 2");
  refuses_state_of(numbered({5}), "the number of shards", "1, this loader has 5");
  refuses_state_of(two_of_three(numbered(kLengths)), "the dataset's fingerprint", "");
  refuses(mismatch, "it has the state of a StreamLoader of a Dispatch there, and this is a StreamLoader;",
          state(StreamLoader(Dispatch{.source = numbered({5})}, {})));
  expect_undisturbed();
}

TEST_F(RefusedStream, OfCursorsThatCannotBeIsAsItWas) {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  refuses_number(0, {-1, 1});          // epoch
  refuses_number(1, {2});              // is_done
  refuses_number(2, {-1, kMost});      // position
  refuses_number(3, {-1, 1'000'000});  // skip
  refuses_number(5, {-1, 1});          // owner
  refuses_number(6, {-2, kMost});      // remaining
  refuses_number(7, {-1, 1, kMost});   // bytes of the blob
  refuses_changed("the blob of shard 2 is not the one",
                  [](json& state) { state["tensors"]["cursors"][2][8] = 5; });
  expect_undisturbed();
}

TEST_F(RefusedStream, OfADamagedTextIsAsItWas) {
  refuses(corrupt, "it is no JSON", text_ + "x");
  refuses(unsupported, "is of version 4", changed(text_, [](json& s) { s["rota_state"] = 4; }));
  refuses_changed("\"tensors\" of its state is missing", [](json& s) { s.erase("tensors"); });
  refuses_changed("is not [rows, 11]", [](json& s) { s["tensors"]["cursors"][1] = {1, 2}; });
  refuses_changed("its cursors are not [5, 11]", [](json& s) { s["tensors"]["cursors"].erase(1); });
  refuses_changed("no whole number", [](json& s) { s["tensors"]["cursors"][1][4] = 0.5; });
  refuses_changed("is no base64", [](json& s) { s["tensors"]["blobs"] = "a"; });
  refuses_changed("blobs are not as long", [](json& s) { s["tensors"]["blobs"] = "AAAA"; });
  static constexpr auto kLimit = std::int64_t{1} << 61;  // ranks agree on 2 epoch + 1
  refuses_changed("be at epoch 2305843009213693952", [](json& s) { s["position"]["epoch"] = kLimit; });
  refuses_changed("begun at step 4", [](json& s) { s["position"]["epoch_began"] = 4; });
  refuses_changed("in a world of 0", [](json& s) { s["run"]["world_size"] = 0; });
  refuses_changed("in a world of 4294967296",
                  [](json& s) { s["run"]["world_size"] = std::int64_t{1} << 32; });
  expect_undisturbed();
}

/// A dispatch with items pending.
class RefusedDispatch : public Test {
 protected:
  RefusedDispatch() {
    take_step();
    while (loader_.stats().ready_batches < 2) continue;
    text_ = state(loader_);
  }
  void take_step() { add_sorted({items_of(*loader_.next(), 5)}, items_); }
  template <typename Change>
  void refuses(const std::string& why, Change change) {
    EXPECT_ERROR(restore(loader_, changed(text_, change)), corrupt, {why});
  }

  std::atomic<std::int64_t> reads_ = 0;
  StreamLoader loader_{Dispatch{.source = counted({42}, reads_), .shards = 5},
                       {.global_batch_size = 7, .read_ahead_batches = 2}};
  Items items_;
  std::string text_;
};

TEST_F(RefusedDispatch, IsAsItWas) {
  refuses("its cursors cannot be", [](json& s) { s["tensors"]["cursors"][0][1] = 9; });
  refuses("its cursors cannot be", [](json& s) { s["delivered"] = 8; });
  refuses("its cursors cannot be", [](json& s) { s["read"]["skip"] = 1000; });
  refuses("its cursors cannot be", [](json& s) { s["read"]["numbers"] = {1}; });
  refuses("pending item 1 cannot be one", [](json& s) { s["tensors"]["pending"][1][1] = 5; });
  refuses("pending item 0 cannot be one", [](json& s) { s["tensors"]["pending"][0][3] = 1'000'000; });
  refuses("pending items are not those between", [](json& s) { s["tensors"]["pending"].erase(13); });
  refuses("pending items are not those between", [](json& s) { s["read"]["position"] = 1'000'000; });
  refuses("\"read.blob\" of its state is no base64", [](json& s) { s["read"]["blob"] = "***="; });
  const auto refuses_open = [&](const std::string& why, const json& rows) {
    refuses(why, [&](json& s) {
      s["rota_state"] = 2;
      s["tensors"]["open"] = rows;
      s["tensors"]["open_items"] = s["tensors"]["items"];
    });
  };
  const json first = json::parse(text_)["tensors"]["pending"][0];  // of shard 0
  const json delivered{0, 0, 0, first[3]};
  refuses_open("open item 0 cannot be one", {{0, 0, 0, 1'000'000}});
  refuses_open("item 10 of epoch 0 cannot be open", json::array({first}));
  refuses_open("item 0 of epoch 0 cannot be open", json::array({delivered, delivered}));
  refuses("\"tensors.open_items\" of its state is missing", [](json& s) { s["rota_state"] = 2; });
  while (items_.size() < 42) take_step();
  EXPECT_FALSE(loader_.next());
  EXPECT_EQ(items_, numbers_from(0, 42));
  EXPECT_EQ(reads_, 42) << "nothing was read again";
}

}  // namespace rota::test::resume_test
