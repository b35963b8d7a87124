// A stream loader's state as a text: a run goes on from it, and it is not believed.

#include <nlohmann/json.hpp>

#include "resume/json.hpp"
#include "stream/dispatched.hpp"
#include "stream/stream_run.hpp"
#include "test.hpp"

namespace rota::test::state_test {

using nlohmann::json;
using test::NumberedStream;

std::shared_ptr<NumberedStream> numbered() {
  return std::make_shared<NumberedStream>(std::vector<std::int64_t>{5, 0, 30, 2, 11});
}

std::map<std::string, std::shared_ptr<const StreamSource>> sources() {
  return {{"plain", numbered()},
          {"short buffer", shuffle_buffer(numbered(), 3, 1)},
          {"long buffer", shuffle_buffer(test::up_to_three(numbered()), 20, 1)},
          {"flat-mapped", test::up_to_three(test::two_of_three(numbered()))}};
}

/// Code and message of what `restore` throws; nothing where it throws nothing.
std::optional<std::pair<ErrorCode, std::string>> refused(StreamLoader& loader, const std::string& text) {
  try {
    restore(loader, text);
  } catch (const Error& error) {
    return std::pair(error.code(), std::string(error.what()));
  }
  return std::nullopt;
}

std::shared_ptr<const StreamSource> counted(const std::shared_ptr<NumberedStream>& source,
                                            std::atomic<std::int64_t>& reads) {
  source->on_read = [&reads](StreamId) { ++reads; };
  return source;
}

template <typename Change>
std::string changed(const std::string& text, Change change) {
  json state = json::parse(text);
  change(state);
  state["digest"] = internal::digest_of(state);  // as if it had been so all along
  return state.dump();
}

// Each rank looks at a part of it, and none may take what another one refuses.
TEST(StreamText, IsRefusedWhereverItWasChanged) {
  const auto source = sources().begin()->second;
  StreamLoader loader(source, {.global_batch_size = 4});
  static_cast<void>(loader.next());
  const std::string text = state(loader);
  std::size_t changes = 0;
  for (std::size_t at = text.find("tensors"); at < text.size(); ++at) {
    if (text[at] < '0' || text[at] > '9') continue;
    std::string other = text;
    other[at] = text[at] == '9' ? '8' : static_cast<char>(text[at] + 1);
    const auto error = refused(loader, other);
    ASSERT_TRUE(error) << at;
    EXPECT_EQ(error->first, ErrorCode::corrupt) << error->second;
    ++changes;
  }
  EXPECT_GT(changes, 20U);
}

TEST(StreamText, TakenAfterEachStepGoesOnWithTheVeryBatches) {
  for (const auto& [name, source] : sources()) {
    StreamLoader unbroken(source, {.global_batch_size = 4, .epochs = 2});
    const auto expected = test::batches_of(unbroken);
    std::string text = state(StreamLoader(source, {}));
    for (std::size_t k = 0; k < expected.size(); ++k) {
      StreamLoader loader(source, {.global_batch_size = 4, .epochs = 2, .workers = int(k % 3)});
      restore(loader, json::parse(text).dump(1));  // another order of keys
      const auto batch = loader.next();
      ASSERT_TRUE(batch) << name;
      ASSERT_EQ(test::seen(*batch), expected[k]) << name << ", step " << k;
      text = state(loader);
    }
  }
}

TEST(StreamText, OfADispatchHasWhatIsPending) {
  const auto dispatch = [] {
    return Dispatch{.source = std::make_shared<NumberedStream>(std::vector<std::int64_t>{40}), .shards = 5};
  };
  std::string text;
  test::Items items;
  for (bool is_over = false; !is_over;) {
    StreamLoader loader(dispatch(), {.global_batch_size = 7, .workers = int(items.size() % 2)});
    if (!text.empty()) restore(loader, text);
    const auto batch = loader.next();
    is_over = !batch;
    if (batch) {
      test::Items step = test::items_of(*batch, 5);
      std::ranges::sort(step);
      items.insert(items.end(), step.begin(), step.end());
    }
    text = state(loader);
  }
  test::Items all(40);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
  EXPECT_EQ(items, all);
}

TEST(StreamText, IsShortForEachShardAndCarriesTheBlobs) {
  const auto size_of = [](std::size_t shards, std::size_t blob_bytes) {
    const auto source = std::make_shared<NumberedStream>(std::vector<std::int64_t>(shards, 2'000'000));
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
class RefusedStream : public ::testing::Test {
 protected:
  RefusedStream() {
    for (int k = 0; k < 3; ++k) seen_.push_back(test::seen(*loader_.next()));
    text_ = state(loader_);
  }
  void refuses(ErrorCode code, const std::string& why, const std::string& text) {
    const auto error = refused(loader_, text);
    ASSERT_TRUE(error) << why;
    EXPECT_EQ(error->first, code) << error->second;
    EXPECT_THAT(error->second, HasSubstr(why));
  }
  template <typename Change>
  void refuses_changed(const std::string& why, Change change) {
    refuses(ErrorCode::corrupt, why, changed(text_, change));
  }
  void refuses_number(std::size_t column, std::int64_t value) {
    refuses_changed("the cursor of shard 2 cannot be one",
                    [&](json& state) { state["tensors"]["cursors"][2][column] = value; });
  }
  /// The rest is what it would have been, and nothing was read twice.
  void expect_undisturbed() {
    while (const auto batch = loader_.next()) seen_.push_back(test::seen(*batch));
    StreamLoader whole(numbered(), options_);
    EXPECT_EQ(seen_, test::batches_of(whole));
    EXPECT_EQ(reads_, 48);
  }

  StreamLoaderOptions options_{.global_batch_size = 4, .workers = 2};
  std::atomic<std::int64_t> reads_ = 0;
  StreamLoader loader_{counted(numbered(), reads_), options_};
  std::vector<std::vector<test::Seen>> seen_;
  std::string text_;
};

TEST_F(RefusedStream, OfAnotherSourceIsAsItWas) {
  const auto of = [](std::shared_ptr<const StreamSource> source) {
    return state(StreamLoader(std::move(source), {}));
  };
  refuses(ErrorCode::mismatch, "cursor's numbers differs: the text has 5, this loader has 2",
          of(shuffle_buffer(numbered(), 3, 1)));
  refuses(ErrorCode::mismatch, "the number of shards differs: the text has 1, this loader has 5",
          of(std::make_shared<NumberedStream>(std::vector<std::int64_t>{5})));
  refuses(ErrorCode::mismatch, "the dataset's fingerprint differs: the text has ",
          of(test::two_of_three(numbered())));
  refuses(ErrorCode::mismatch,
          "it has the state of a StreamLoader of a Dispatch there, and this is a StreamLoader;",
          state(StreamLoader(
              Dispatch{.source = std::make_shared<NumberedStream>(std::vector<std::int64_t>{5})}, {})));
  expect_undisturbed();
}

TEST_F(RefusedStream, OfCursorsThatCannotBeIsAsItWas) {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t epoch : {-1, 1}) refuses_number(0, epoch);
  refuses_number(1, 2);
  for (const std::int64_t position : {std::int64_t{-1}, kMost}) refuses_number(2, position);
  for (const std::int64_t skip : {std::int64_t{-1}, std::int64_t{1'000'000}}) refuses_number(3, skip);
  for (const std::int64_t owner : {-1, 1}) refuses_number(5, owner);
  for (const std::int64_t remaining : {std::int64_t{-2}, kMost}) refuses_number(6, remaining);
  for (const std::int64_t bytes : {std::int64_t{-1}, std::int64_t{1}, kMost}) refuses_number(7, bytes);
  refuses_changed("the blob of shard 2 is not the one",
                  [](json& state) { state["tensors"]["cursors"][2][8] = 5; });
  expect_undisturbed();
}

TEST_F(RefusedStream, OfADamagedTextIsAsItWas) {
  refuses(ErrorCode::corrupt, "it is no JSON", text_ + "x");
  refuses(ErrorCode::unsupported, "is of version 3", changed(text_, [](json& s) { s["rota_state"] = 3; }));
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
class RefusedDispatch : public ::testing::Test {
 protected:
  RefusedDispatch() {
    take_step();
    while (loader_.stats().ready_batches < 2) continue;
    text_ = state(loader_);
  }
  void take_step() {
    const auto batch = loader_.next();
    test::Items step = test::items_of(*batch, 5);
    std::ranges::sort(step);
    items_.insert(items_.end(), step.begin(), step.end());
  }
  template <typename Change>
  void refuses(const std::string& why, Change change) {
    const auto error = refused(loader_, changed(text_, change));
    ASSERT_TRUE(error) << why;
    EXPECT_EQ(error->first, ErrorCode::corrupt) << error->second;
    EXPECT_THAT(error->second, HasSubstr(why));
  }

  std::atomic<std::int64_t> reads_ = 0;
  StreamLoader loader_{
      Dispatch{.source = counted(std::make_shared<NumberedStream>(std::vector<std::int64_t>{42}), reads_),
               .shards = 5},
      {.global_batch_size = 7, .read_ahead_batches = 2}};
  test::Items items_;
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
  while (items_.size() < 42) take_step();
  EXPECT_FALSE(loader_.next());
  for (std::size_t i = 0; i < items_.size(); ++i) EXPECT_EQ(items_[i], static_cast<std::int64_t>(i));
  EXPECT_EQ(reads_, 42) << "nothing was read again";
}

}  // namespace rota::test::state_test
