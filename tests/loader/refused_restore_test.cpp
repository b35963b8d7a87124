// A restore that is refused has moved nothing: what was read ahead is delivered, and nothing is read twice.

#include "loader/saved_loader.hpp"
#include "source/told_source.hpp"
#include "test.hpp"

namespace rota::test::refused_restore_test {

using nlohmann::json;
using test::cursors_of;
using test::made_checkpoint;
using test::saved_state;

constexpr std::int64_t kSamples = 100;

LoaderOptions options() {
  return {.global_batch_size = 7, .shards = 9, .seed = 3, .workers = 2, .read_ahead_batches = 5};
}

/// A loader in the midst of its epoch, with five batches read ahead.
class RefusedRestore : public ::testing::Test {
 protected:
  RefusedRestore() { go(4); }

  void go(int steps) {
    for (int k = 0; k < steps; ++k) {
      const auto batch = loader_.next();
      for (const SampleId id : batch->ids()) seen_.push_back(id.value);
    }
  }
  template <typename Restore>
  void expect_refusal(ErrorCode code, const std::string& why, Restore restore_it) {
    loader_.warm_up();
    const std::int64_t reads = source_->reads;
    const auto refused = test::refused(restore_it);
    ASSERT_TRUE(refused) << why;
    EXPECT_EQ(refused->code, code) << refused->why;
    EXPECT_THAT(refused->why, HasSubstr(why));
    loader_.warm_up();
    EXPECT_EQ(source_->reads, reads) << why;
    EXPECT_EQ(loader_.stats().ready_batches, 5) << why;
  }
  void refuses(ErrorCode code, const std::string& why, const std::string& state) {
    expect_refusal(code, why, [&] { restore(loader_, state); });
    expect_refusal(code, why, [&] { restore(loader_, made_checkpoint(state, cursors_of(loader_))); });
  }
  void refuses(ErrorCode code, const std::string& why, const Loader& other) {
    refuses(code, why, saved_state(other));
  }
  /// The rest of the run is what it would have been, and each sample was read once.
  void expect_undisturbed() {
    for (const Batch& batch : loader_) {
      for (const SampleId id : batch.ids()) seen_.push_back(id.value);
    }
    Loader whole(counting(kSamples), options());
    std::vector<std::int64_t> all;
    for (const Batch& batch : whole) {
      for (const SampleId id : batch.ids()) all.push_back(id.value);
    }
    EXPECT_EQ(seen_, all);
    EXPECT_EQ(source_->reads, kSamples);
  }
  /// The state of the loader, changed.
  template <typename Change>
  [[nodiscard]] std::string changed(Change change) const {
    json state = json::parse(saved_state(loader_));
    change(state);
    return state.dump();
  }

  std::shared_ptr<ToldSource> source_ = counting(kSamples);
  Loader loader_{source_, options()};
  std::vector<std::int64_t> seen_;
};

TEST_F(RefusedRestore, OfAnotherOrderMovesNothing) {
  const auto with = [](auto change) {
    LoaderOptions other = options();
    change(other);
    return Loader(counting(kSamples), other);
  };
  refuses(ErrorCode::mismatch, "the dataset differs", Loader(counting(kSamples + 1), options()));
  refuses(ErrorCode::mismatch, "the seed differs", with([](LoaderOptions& o) { o.seed = 4; }));
  refuses(ErrorCode::mismatch, "shards differs", with([](LoaderOptions& o) { o.shards = 10; }));
  refuses(ErrorCode::mismatch, "interleave differs", with([](LoaderOptions& o) { o.interleave = 2; }));
  refuses(ErrorCode::mismatch, "shuffle differs", with([](LoaderOptions& o) { o.shuffle = Shuffle::none; }));
  refuses(ErrorCode::mismatch, "version differs", changed([](json& s) { s["order"]["version"] = 9; }));
  expect_undisturbed();
}

TEST_F(RefusedRestore, OfAPlaceThatIsNoneMovesNothing) {
  const auto at = [&](const char* key, std::int64_t value) {
    return changed([&](json& s) { s["position"][key] = value; });
  };
  refuses(ErrorCode::corrupt, "an epoch has 100 samples", at("consumed", 101));
  refuses(ErrorCode::corrupt, "\"position.consumed\" of its state is not from 0", at("consumed", -1));
  refuses(ErrorCode::corrupt, "\"position.epoch\" of its state is not from 0", at("epoch", -1));
  refuses(ErrorCode::corrupt, "\"position.step\" of its state is not from 0",
          at("step", std::numeric_limits<std::int64_t>::max()));
  expect_undisturbed();
}

TEST_F(RefusedRestore, OfCursorsThatDisagreeMovesNothing) {
  auto cursors = cursors_of(loader_);
  ++cursors[5];
  --cursors[7];
  expect_refusal(ErrorCode::corrupt, "its cursors are not those of epoch 0, sample 28",
                 [&] { restore(loader_, made_checkpoint(saved_state(loader_), cursors)); });
  const auto same = cursors_of(loader_);
  const std::vector<double> floats(same.begin(), same.end());
  expect_refusal(ErrorCode::corrupt, "its cursors are not those",
                 [&] { restore(loader_, made_checkpoint(saved_state(loader_), floats)); });
  cursors.resize(16);
  expect_refusal(ErrorCode::corrupt, "its cursors are not those",
                 [&] { restore(loader_, made_checkpoint(saved_state(loader_), cursors)); });
  expect_undisturbed();
}

TEST_F(RefusedRestore, OfADamagedStateMovesNothing) {
  refuses(ErrorCode::corrupt, "it is no JSON", saved_state(loader_).substr(1));
  refuses(ErrorCode::corrupt, "it is no JSON", "");
  refuses(ErrorCode::corrupt, "\"order.seed\" of its state is missing",
          changed([](json& s) { s["order"].erase("seed"); }));
  refuses(ErrorCode::unsupported, "is of version 7, and this rota reads up to 1",
          changed([](json& s) { s["rota_state"] = 7; }));
  refuses(ErrorCode::mismatch, "it has the state of a StreamLoader there, and this is a Loader",
          changed([](json& s) { s["kind"] = "StreamLoader"; }));
  expect_refusal(ErrorCode::not_found, "another", [&] {
    restore(loader_, made_checkpoint(saved_state(loader_), cursors_of(loader_)), "another");
  });
  expect_undisturbed();
}

TEST_F(RefusedRestore, OfAMixtureMovesNothing) {
  refuses(ErrorCode::mismatch, "the number of datasets mixed differs", changed([](json& s) {
            s["mixture"] = {{"weights", {1, 2}}, {"changed_at", 0}, {"counts", {0, 0}}};
          }));
  expect_undisturbed();
}

TEST(RefusedRestoreOfAMixture, MovesNothing) {
  const auto sources = std::vector{counting(50), counting(60)};
  const Mixture mixture{.datasets = {{sources[0], 1}, {sources[1], 2}}};
  Loader loader(mixture, {.global_batch_size = 6, .workers = 1});
  static_cast<void>(loader.next());
  loader.warm_up();
  const auto reads = [&] { return sources[0]->reads + sources[1]->reads; };
  const auto before = reads();
  const auto refuses = [&](ErrorCode code, const std::string& why, auto change) {
    json state = json::parse(saved_state(loader));
    change(state["mixture"]);
    for (const bool is_text : {true, false}) {
      const auto refused = test::refused([&] {
        is_text ? restore(loader, state.dump())
                : restore(loader, made_checkpoint(state.dump(), cursors_of(loader)));
      });
      ASSERT_TRUE(refused) << why;
      EXPECT_EQ(refused->code, code) << refused->why;
      EXPECT_THAT(refused->why, HasSubstr(why));
      loader.warm_up();
      EXPECT_EQ(reads(), before) << why;
    }
  };
  refuses(ErrorCode::mismatch, "mixed differs: ", [](json& m) { m["weights"] = {1, 2, 3}; });
  refuses(ErrorCode::corrupt, "counts must add up", [](json& m) { m["counts"] = {1, 2}; });
  refuses(ErrorCode::corrupt, "counts must add up", [](json& m) { m["weights"] = {0, 0}; });
  refuses(ErrorCode::corrupt, "its weights were set at sample 7", [](json& m) {
    m = {{"weights", {1, 2}}, {"changed_at", 7}, {"counts", {3, 4}}};
  });
}

}  // namespace rota::test::refused_restore_test
