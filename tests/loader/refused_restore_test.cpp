// A restore that is refused has moved nothing: what was read ahead is delivered, and nothing is read twice.

#include <nlohmann/json.hpp>

#include "loader/course.hpp"

namespace rota::test::refused_restore_test {

using nlohmann::json;
constexpr std::int64_t kSamples = 100;

LoaderOptions options() {
  return {.global_batch_size = 7, .shards = 9, .seed = 3, .workers = 2, .read_ahead_batches = 5};
}

/// The state in a checkpoint, without its cursors.
std::string saved_state(const Loader& loader) {
  json parsed = json::parse(state(loader));
  parsed.erase("skipped");
  return parsed.dump();
}

Numbers cursors_of(const Loader& loader) {
  Numbers cursors(static_cast<std::size_t>(2 * loader.datasets() * loader.options().shards));
  loader.cursors(0, cursors);
  return cursors;
}

/// A checkpoint with that state and those cursors, whatever they are.
template <typename Number>
Checkpoint made_checkpoint(const std::string& state, const std::vector<Number>& cursors) {
  Checkpoints checkpoints;
  Snapshot snapshot;
  snapshot.tensor("loader/main/cursors", {2}, std::ssize(cursors) / 2, cursors);
  snapshot.blob("loader/main/state", state);
  checkpoints->save(1, snapshot);
  return *checkpoints->latest();
}

/// A loader in the midst of its epoch, with five batches read ahead.
class RefusedRestore : public Test {
 protected:
  RefusedRestore() { go(4); }

  void go(int steps) {
    for (int k = 0; k < steps; ++k) {
      const auto batch = loader_.next();
      std::ranges::copy(ids_of(*batch), std::back_inserter(seen_));
    }
  }
  template <typename Restore>
  void expect_refusal(ErrorCode code, const std::string& why, Restore restore_it) {
    loader_.warm_up();
    const std::int64_t reads = source_->reads;
    EXPECT_THAT(error_of(restore_it), is_error(code, {why}));
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
    std::ranges::copy(rest_of(loader_), std::back_inserter(seen_));
    Loader whole(counting(kSamples), options());
    EXPECT_EQ(seen_, rest_of(whole));
    EXPECT_EQ(source_->reads, kSamples);
  }
  /// The state of the loader, changed.
  template <typename Change>
  std::string changed(Change change) const {
    json state = json::parse(saved_state(loader_));
    change(state);
    return state.dump();
  }

  std::shared_ptr<ToldSource> source_ = counting(kSamples);
  Loader loader_{source_, options()};
  Numbers seen_;
};

TEST_F(RefusedRestore, OfAnotherOrderMovesNothing) {
  const auto with = [](auto change) {
    LoaderOptions other = options();
    change(other);
    return Loader(counting(kSamples), other);
  };
  const auto differs = [&](const std::string& what, const std::string& values, const Loader& other) {
    refuses(mismatch, what + " differs: the ", other);
    refuses(mismatch, values, other);
  };
  differs("the dataset", "101 samples", Loader(counting(kSamples + 1), options()));
  differs("the seed", " has 4, this loader has 3", with([](LoaderOptions& o) { o.seed = 4; }));
  differs("the number of shards", " has 10, this loader has 9",
          with([](LoaderOptions& o) { o.shards = 10; }));
  differs("interleave", " has 2, this loader has 9", with([](LoaderOptions& o) { o.interleave = 2; }));
  differs("the shuffle", " has none, this loader has global",
          with([](LoaderOptions& o) { o.shuffle = Shuffle::none; }));
  differs("the shuffle", "global", Loader(counting(kSamples), {.shuffle = Shuffle::none}));  // of one shard
  differs("the digest of the shards' lengths", "",
          Loader(counting(kSamples, {12, 12, 11, 11, 11, 11, 11, 11, 10}), options()));
  refuses(mismatch, "version differs", changed([](json& s) { s["order"]["version"] = 9; }));
  expect_undisturbed();
}

TEST_F(RefusedRestore, OfAnotherBlockShapeNamesIt) {
  const auto of = [](std::int64_t blocks) {
    return Loader(counting(kSamples), {.shuffle = Shuffle::block, .block = {.blocks = blocks}});
  };
  Loader loader = of(8);
  EXPECT_ERROR(restore(loader, state(of(16))), mismatch,
               {"block.blocks differs: the text has 16, this loader has 8"});
}

TEST_F(RefusedRestore, OfAPlaceThatIsNoneMovesNothing) {
  const auto at = [&](const char* key, std::int64_t value) {
    return changed([&](json& s) { s["position"][key] = value; });
  };
  refuses(corrupt, "an epoch has 100 samples", at("consumed", 101));
  refuses(corrupt, "\"position.consumed\" of its state is -1, and no whole number from 0",
          at("consumed", -1));
  refuses(corrupt, "\"position.epoch\" of its state is -1, and no whole number from 0", at("epoch", -1));
  refuses(corrupt, "\"position.step\" of its state is 9223372036854775807, and no whole number from 0",
          at("step", std::numeric_limits<std::int64_t>::max()));
  expect_undisturbed();
}

TEST_F(RefusedRestore, OfCursorsThatDisagreeMovesNothing) {
  auto cursors = cursors_of(loader_);
  ++cursors[5];
  --cursors[7];
  expect_refusal(corrupt, "its cursors are not those of epoch 0, sample 28",
                 [&] { restore(loader_, made_checkpoint(saved_state(loader_), cursors)); });
  const auto same = cursors_of(loader_);
  const std::vector<double> floats(same.begin(), same.end());
  expect_refusal(corrupt, "is not int64 [rows, 2]",
                 [&] { restore(loader_, made_checkpoint(saved_state(loader_), floats)); });
  cursors.resize(16);
  expect_refusal(corrupt, "its cursors are not those",
                 [&] { restore(loader_, made_checkpoint(saved_state(loader_), cursors)); });
  expect_undisturbed();
}

TEST_F(RefusedRestore, OfADamagedStateMovesNothing) {
  refuses(corrupt, "it is no JSON", saved_state(loader_).substr(1));
  refuses(corrupt, "it is no JSON", "");
  refuses(corrupt, "\"order.seed\" of its state is missing",
          changed([](json& s) { s["order"].erase("seed"); }));
  refuses(unsupported, "is of version 7, and this rota reads up to 3",
          changed([](json& s) { s["rota_state"] = 7; }));
  refuses(mismatch, "it has the state of a StreamLoader there, and this is a Loader",
          changed([](json& s) { s["kind"] = "StreamLoader"; }));
  expect_refusal(not_found, "another", [&] {
    restore(loader_, made_checkpoint(saved_state(loader_), cursors_of(loader_)), "another");
  });
  expect_undisturbed();
}

TEST_F(RefusedRestore, OfAMixtureMovesNothing) {
  refuses(mismatch, "the number of datasets mixed differs", changed([](json& s) {
            s["mixture"] = {{"weights", {1, 2}}, {"changed_at", 0}, {"counts", {0, 0}}};
          }));
  expect_undisturbed();
}

TEST(RefusedRestoreOfAMixture, MovesNothing) {
  const auto sources = std::vector{counting(50), counting(60)};
  const Mixture mixture{.datasets = {{sources[0], 1}, {sources[1], 2}}};
  Loader loader(mixture, {.global_batch_size = 6, .workers = 1});
  (void)loader.next();
  loader.warm_up();
  const auto reads = [&] { return sources[0]->reads + sources[1]->reads; };
  const auto before = reads();
  const auto refuses = [&](ErrorCode code, const std::string& why, auto change) {
    json state = json::parse(saved_state(loader));
    change(state["mixture"]);
    for (const bool is_text : {true, false}) {
      EXPECT_ERROR(is_text ? restore(loader, state.dump())
                           : restore(loader, made_checkpoint(state.dump(), cursors_of(loader))),
                   code, {why});
      loader.warm_up();
      EXPECT_EQ(reads(), before) << why;
    }
  };
  refuses(mismatch, "mixed differs: ", [](json& m) { m["weights"] = {1, 2, 3}; });
  refuses(corrupt, "counts must add up", [](json& m) { m["counts"] = {1, 2}; });
  refuses(corrupt, "counts must add up", [](json& m) { m["weights"] = {0, 0}; });
  refuses(corrupt, "its weights were set at sample 7", [](json& m) {
    m = {{"weights", {1, 2}}, {"changed_at", 7}, {"counts", {3, 4}}};
  });
}

}  // namespace rota::test::refused_restore_test
