// What is open or dropped, in states: there again in any world, and not believed blindly.

#include <nlohmann/json.hpp>

#include "core/state_text.hpp"
#include "loader/course.hpp"
#include "rota/resume.hpp"

namespace rota::test::settle_state_test {

using nlohmann::json;
using Change = std::function<void(json&)>;
constexpr auto kMost = std::numeric_limits<std::int64_t>::max();

Loader make(World world = {}, std::uint64_t seed = 0) {
  return {counting(100), {.global_batch_size = 10, .seed = seed, .settle = Settle::by_hand}, world};
}

/// With a digest of its own, so that no more is wrong than what was changed.
std::string changed(const std::string& text, const Change& change) {
  json state = json::parse(text);
  change(state);
  state["digest"] = internal::digest_of(state);
  return state.dump();
}

/// The state of a loader that has handed out a batch, of which it has settled the first sample.
std::string state_of(World world, std::uint64_t seed = 0) {
  Loader loader = make(world, seed);
  const auto batch = loader.next();
  loader.settle(batch->ids().first(1), batch->epochs().first(1));
  return state(loader);
}

// ---- what is dropped ----

TEST(Dropped, IsListedByACheckpointAndCountedByATextAndByOneOfBefore) {
  Loader loader = make();
  loader.drop(*loader.next(), "stale");
  const auto batch = loader.next();
  loader.drop(batch->ids().first(1), batch->epochs().first(1), "odd");
  loader.settle(batch->ids().subspan(1), batch->epochs().subspan(1));
  Checkpoints checkpoints;
  checkpoints->save_all(2, loader);
  Loader other = make();
  restore(other, *checkpoints->latest());
  EXPECT_EQ(other.dropped().counts, (std::map<std::string, std::int64_t>{{"odd", 1}, {"stale", 10}}));
  EXPECT_EQ(other.dropped().samples, loader.dropped().samples);
  EXPECT_EQ(state(other), state(loader));
  other.drop(*other.next(), "stale");
  EXPECT_EQ(other.dropped().counts["stale"], 20);
  EXPECT_THAT(other.dropped().samples, SizeIs(21));
  restore(other, state(loader));
  EXPECT_EQ(other.dropped().counts, loader.dropped().counts);
  EXPECT_THAT(other.dropped().samples, IsEmpty());
}

TEST(Dropped, AtTheTailIsKnownToAllRanksAndListedByOne) {
  Loader whole = make();
  while (const auto batch = whole.next()) {
    if (batch->start().step > 0) whole.settle(*batch);
  }
  for (int rank = 0; rank < 3; ++rank) {
    Loader loader(counting(100), {.global_batch_size = 16, .tail = Tail::drop}, World{rank, 3});
    restore(loader, state(whole));
    EXPECT_FALSE(loader.next());
    EXPECT_EQ(loader.dropped().counts, (std::map<std::string, std::int64_t>{{"tail", 10}}));
    EXPECT_THAT(loader.dropped().samples, SizeIs(rank == 0 ? 10 : 0));
  }
}

/// Checkpoints that say of dropped samples what cannot be.
class HostileDrops : public Test {
 protected:
  /// What restoring such a checkpoint throws.
  std::optional<Error> refusal(const json& counts, const std::function<void(Snapshot&)>& add) {
    Loader loader = make();
    for (int step = 0; step < 3; ++step) loader.settle(*loader.next());
    json state = json::parse(rota::state(loader));
    state.erase("digest");
    state["dropped"] = counts;
    Numbers cursors(static_cast<std::size_t>(2 * loader.options().shards));
    loader.cursors(0, cursors);
    Snapshot snapshot;
    snapshot.tensor("loader/main/cursors", {2}, std::ssize(cursors) / 2, cursors);
    snapshot.blob("loader/main/state", state.dump());
    add(snapshot);
    checkpoints_->save(3, snapshot);
    Loader other = make();
    const auto error = error_of([&] { restore(other, *checkpoints_->latest()); });
    EXPECT_EQ(other.position().step, error ? 0 : 3);
    EXPECT_EQ(other.dropped().counts.empty(), error.has_value());
    return error;
  }
  std::optional<Error> refusal(const json& counts, const Numbers& rows, const std::string& text) {
    return refusal(counts, [&](Snapshot& snapshot) {
      snapshot.tensor("loader/main/dropped", {4}, std::ssize(rows) / 4, rows);
      snapshot.tensor("loader/main/dropped_text", DType::uint8, {}, std::ssize(text),
                      std::as_bytes(std::span(text)));
    });
  }
  static auto is_corrupt(std::initializer_list<std::string> words) { return is_error(corrupt, words); }

  Checkpoints checkpoints_;
};

TEST_F(HostileDrops, AreRefusedWithTheTensorAndTheReason) {
  const json one = {{"x", 1}};
  EXPECT_FALSE(refusal(one, [](Snapshot&) {})) << "of before there were lists";
  EXPECT_FALSE(refusal({{"x", 1}, {"y", 1}}, {0, 99, 0, 1, 1, 0, 0, 1}, "yx"));
  EXPECT_THAT(refusal(one, {0, 1, 0, 0, 0, 2, 0, 0}, ""), is_corrupt({"lists more than were counted"}));
  for (const Numbers& row : {Numbers{-1, 1, 0, 0}, {0, 100, 0, 0}, {0, -1, 0, 0}})
    EXPECT_THAT(refusal(one, row, ""), is_corrupt({"loader/main/dropped", "names a sample that is not"}));
  for (const Numbers& row : {Numbers{0, 1, 3, 2}, {0, 1, kMost, kMost}, {0, 1, -1, 2}})
    EXPECT_THAT(refusal(one, row, "abcd"), is_corrupt({"texts that are not"}));
  EXPECT_THAT(refusal(one, {0, 1, 2, 1}, "abcd"), is_corrupt({"dropped_text", "longer than what is listed"}));
  const Numbers numbers{0, 0, 0, 0};
  const auto name = "loader/main/dropped";
  EXPECT_THAT(refusal(one, [&](Snapshot& s) { s.tensor(name, {}, 4, numbers); }),
              is_corrupt({"is not int64 [rows, 4]"}));
  EXPECT_THAT(refusal(one, [&](Snapshot& s) { s.tensor(name, {4}, 1, numbers); }),
              is_corrupt({"dropped_text", "is missing"}));
}

TEST_F(HostileDrops, WithCountsThatCannotBeAreRefused) {
  const auto nothing = [](Snapshot&) {};
  EXPECT_THAT(refusal({{"x", -1}}, nothing), is_corrupt({"\"dropped.x\" of its state is -1"}));
  EXPECT_THAT(refusal({{"x", kMost}}, nothing), is_corrupt({"\"dropped.x\"", "whole number from 0"}));
  EXPECT_THAT(refusal({{"x", kMaxCount}, {"y", 1}}, nothing),
              is_corrupt({"\"dropped.y\" of its state is 1, and no whole number from 0 to 0"}));
  EXPECT_THAT(refusal({{"x", "7"}}, nothing), is_corrupt({"\"dropped.x\""}));
  EXPECT_THAT(refusal({1, 2}, nothing), is_corrupt({"\"dropped\""}));
}

// ---- what is open ----

TEST(HostileHoles, AreRefusedAndNothingIsLost) {
  const std::string text = state_of(World{});
  Loader loader = make();
  const auto batch = loader.next();
  const auto refuses = [&](const std::vector<std::string>& words, const Change& change) {
    EXPECT_THAT(error_of([&] { restore(loader, changed(text, change)); }), is_error(corrupt, words));
  };
  refuses({"\"open\"", "of version 1"}, [](json& state) { state["rota_state"] = 1; });
  refuses({"\"open\"", "cannot be open"}, [](json& state) { state["position"]["consumed"] = 5; });
  refuses({"\"open\"", "base64"}, [](json& state) { state["open"] = "?"; });
  refuses({"\"open\"", "is no text"}, [](json& state) { state["open"] = {1, 2}; });
  // Cut; of two datasets; past all samples.
  for (const char* open : {"AgE=", "AQEBAQ==", "AeQA"})
    refuses({"cannot be open"}, [&](json& state) { state["open"] = open; });
  Mixture mixture{.datasets = {{counting(50)}, {counting(50)}}};
  Loader mixed(mixture, {.global_batch_size = 10});
  while (mixed.position().step < 2) ASSERT_TRUE(mixed.next());
  const auto of_one = changed(state(mixed), [](json& state) {
    state["rota_state"] = 2;
    state["open"] = "AQE=";
  });
  EXPECT_ERROR(restore(mixed, of_one), corrupt, {"cannot be open"});
  EXPECT_EQ(mixed.position().step, 2);
  EXPECT_EQ(loader.stats().open, 10);
  loader.settle(*batch);
}

TEST(Parts, ARankThatIsAloneSinceDoesNotGoBackBehindWhatOthersHaveSettled) {
  Loader stays = make({.rank = 0, .size = 2});
  Loader leaves = make({.rank = 1, .size = 2});
  const auto held = stays.next();
  leaves.settle(*leaves.next());
  stays.rescale(World{});
  Loader next = make();
  restore(next, state(stays));
  EXPECT_EQ(next.position().step, 1);
  const auto again = next.next();
  EXPECT_TRUE(again->is_again());
  EXPECT_THAT(again->ids(), ElementsAreArray(held->ids()));
}

TEST(Parts, AreMergedAlsoWhereOneHasDroppedBeforeASeek) {
  std::vector<std::string> parts;
  for (int rank = 0; rank < 2; ++rank) {
    Loader loader = make({.rank = rank, .size = 2});
    const auto batch = loader.next();
    rank == 0 ? loader.drop(*batch, "stale") : loader.settle(*batch);
    const auto failed = loader.next();
    loader.seek(failed->start());
    loader.settle(*loader.next());
    parts.push_back(state(loader));
  }
  Loader next = make();
  restore(next, merge_states(parts));
  EXPECT_EQ(next.position().step, 2);
  EXPECT_EQ(next.dropped().counts["stale"], 5);
}

TEST(Parts, OfRunsThatDifferAreRefused) {
  const std::string one = state_of({0, 2});
  EXPECT_ERROR(merge_states(std::vector{one}), invalid_argument, {"1 are of a run of 2 ranks"});
  EXPECT_ERROR(merge_states(std::vector{one, state_of({1, 2}, 7)}), mismatch, {"\"order\"", "one run"});
  EXPECT_ERROR(merge_states(std::vector{one, state_of({1, 3})}), invalid_argument, {"a run of 3 ranks"});
  const auto other = changed(state_of({1, 2}), [](json& state) { state["dropped"]["x"] = 1; });
  EXPECT_THROW(merge_states(std::vector{one, other}), Error);
}

TEST(Parts, ThatCannotBeAreRefused) {
  const std::vector<std::string> parts{state_of({0, 2}), state_of({1, 2})};
  const auto refuses = [&](const std::vector<std::string>& words, const Change& change) {
    const std::vector<std::string> all{parts[0], changed(parts[1], change)};
    EXPECT_THAT(error_of([&] { (void)merge_states(all); }), is_error(corrupt, words));
  };
  refuses({"\"part.rank\" of its state is 2"}, [](json& state) { state["part"]["rank"] = 2; });
  refuses({"\"part.rank\" of its state is -1"}, [](json& state) { state["part"]["rank"] = -1; });
  refuses({"\"part.rank\""}, [](json& state) { state["part"]["size"] = 0; });
  refuses({"\"part.back\"", "behind its place"}, [](json& state) { state["part"]["back"]["step"] = 2; });
  refuses({"\"part.back\"", "behind"}, [](json& state) { state["part"]["back"]["consumed"] = 11; });
  refuses({"\"part.back\"", "missing"}, [](json& state) { state["part"].erase("back"); });
  refuses({"\"part.dropped.x\""}, [](json& state) { state["part"]["dropped"]["x"] = -1; });
  refuses({"merge states: \"dropped.x\""}, [](json& state) { state["dropped"]["x"] = -1; });
  refuses({"an epoch has 100"}, [](json& state) { state["position"]["consumed"] = 101; });
  refuses({"global_batch_size"}, [](json& state) { state["run"]["global_batch_size"] = 0; });
  refuses({"cannot be open"}, [](json& state) { state["open"] = "AgE="; });
  EXPECT_ERROR(merge_states(std::vector{parts[0], parts[1].substr(1)}), corrupt, {"no JSON"});
  const auto most = [](json& state) { state["part"]["dropped"]["x"] = kMaxCount; };
  const std::string merged = merge_states(std::vector{changed(parts[0], most), changed(parts[1], most)});
  EXPECT_EQ(json::parse(merged)["dropped"]["x"], kMaxCount);
}

}  // namespace rota::test::settle_state_test
