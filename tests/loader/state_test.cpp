// The state as a text: a run goes on from it in any world, and it is small, readable and not believed.

#include "loader/saved_loader.hpp"
#include "source/told_source.hpp"
#include "test.hpp"

namespace rota::test::state_test {

using nlohmann::json;

constexpr std::int64_t kSamples = 61;

/// What a run is made of, for each rank and each worker count anew.
struct Scenario {
  std::string name;
  std::function<Loader(int workers, World world)> make;
};

std::vector<Scenario> scenarios() {
  const auto plain = [](LoaderOptions options) {
    return [=](int workers, World world) {
      LoaderOptions mine = options;
      mine.workers = workers;
      return Loader(counting(kSamples), mine, world);
    };
  };
  const LoaderOptions base{.global_batch_size = 7, .shards = 5, .seed = ~std::uint64_t{0}, .epochs = 2};
  LoaderOptions grouped = base;
  grouped.interleave = 2;
  grouped.shuffle = Shuffle::within;
  grouped.tail = Tail::carry;
  LoaderOptions blocks = base;
  blocks.shuffle = Shuffle::block;
  blocks.block = {.samples = 4, .blocks = 3};
  blocks.tail = Tail::pad;
  const auto mixture = [=](int workers, World world) {
    LoaderOptions mine = base;
    mine.workers = workers;
    return Loader({.datasets = {{counting(20), 1}, {counting(30), 2.5}}, .end = MixtureEnd::all_exhausted},
                  mine, world);
  };
  return {
      {"global", plain(base)}, {"groups", plain(grouped)}, {"blocks", plain(blocks)}, {"mixture", mixture}};
}

/// The ids of a global batch, from the loaders of all ranks; empty at the end.
std::vector<std::int64_t> step(std::vector<Loader>& ranks) {
  std::vector<std::int64_t> ids;
  for (Loader& loader : ranks) {
    const auto batch = loader.next();
    for (std::size_t i = 0; batch && i < batch->ids().size(); ++i) ids.push_back(batch->ids()[i].value);
  }
  return ids;
}

std::vector<Loader> world_of(const Scenario& run, int size, int workers) {
  std::vector<Loader> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(run.make(workers, {.rank = rank, .size = size}));
  return ranks;
}

TEST(State, TakenAtEveryStepGoesOnExactlyInAnyWorldWithAnyNumberOfWorkers) {
  for (const Scenario& run : scenarios()) {
    std::vector<std::string> states;
    std::vector<std::vector<std::int64_t>> steps;
    std::vector<Loader> whole = world_of(run, 1, 1);
    for (bool is_over = false; !is_over; is_over = steps.back().empty()) {
      states.push_back(state(whole[0]));
      steps.push_back(step(whole));
    }
    for (std::size_t at = 0; at < states.size(); ++at) {
      const int size = 1 + static_cast<int>(at % 4);
      std::vector<Loader> ranks = world_of(run, size, static_cast<int>(at % 3));
      for (Loader& loader : ranks) restore(loader, states[at]);
      for (std::size_t k = at; k < steps.size(); ++k) {
        for (const Loader& loader : ranks) ASSERT_EQ(state(loader), state(ranks[0])) << "on all ranks";
        ASSERT_EQ(step(ranks), steps[k]) << run.name << ", from step " << at << " on, step " << k;
      }
    }
  }
}

TEST(State, GoesBackInALoaderThatHasReadOn) {
  Loader loader = scenarios()[3].make(2, {});
  for (int k = 0; k < 3; ++k) static_cast<void>(loader.next());
  loader.set_weights(std::vector<double>{5, 1});
  const std::string then = state(loader);
  const Position position = loader.position();
  const MixtureState mixture = *loader.mixture();
  static_cast<void>(loader.next());
  loader.set_weights(std::vector<double>{1, 1});
  restore(loader, then);
  EXPECT_EQ(loader.position(), position);
  EXPECT_EQ(*loader.mixture(), mixture);
  EXPECT_EQ(state(loader), then);
}

TEST(State, IsAFewHundredBytesWhateverSamplesAndShards) {
  constexpr std::int64_t kMany = 1'000'000'000'000;
  std::size_t longest = 0;
  for (const std::int64_t shards : {1, 256, 1'000'000}) {
    Loader loader(counting(kMany), {.shards = shards, .seed = ~std::uint64_t{0}, .epochs = kEndless});
    loader.seek({.epoch = kMany, .consumed = kMany - 1, .step = kMany});
    longest = std::max(longest, state(loader).size());
  }
  EXPECT_LE(longest, 550U);
  RecordProperty("bytes", static_cast<int>(longest));
  const std::vector<std::int64_t> lengths(10'000, 2);
  EXPECT_LE(state(Loader(counting(20'000, lengths), {.shards = 10'000})).size(), 550U) << "ragged";
}

TEST(State, OfAMixtureGrowsWithItsDatasetsAlone) {
  const auto size_of = [](std::size_t datasets) {
    Mixture mixture;
    for (std::size_t d = 0; d < datasets; ++d) mixture.datasets.push_back({counting(1000), 1.0 + double(d)});
    return state(Loader(mixture, {})).size();
  };
  const std::size_t two = size_of(2);
  EXPECT_LE(two, 600U);
  EXPECT_LE(size_of(102), two + 100 * 40);
}

TEST(State, RoundTripsThroughAnotherParserThatReordersKeys) {
  Loader loader = scenarios()[3].make(1, {});
  static_cast<void>(loader.next());
  json parsed = json::parse(state(loader));  // whose keys are sorted
  Loader other = scenarios()[3].make(0, {});
  restore(other, parsed.dump(2));
  EXPECT_EQ(other.position(), loader.position());
  EXPECT_EQ(state(other), state(loader));
}

TEST(State, IsRefusedWhereItWasChangedToAnotherPlace) {
  Loader loader(counting(100), {.global_batch_size = 7, .shards = 9});
  json changed = json::parse(state(loader));
  changed["position"]["consumed"] = 7;
  changed["position"]["step"] = 1;
  const auto refused = test::refused([&] { restore(loader, changed.dump()); });
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code, ErrorCode::corrupt);
  EXPECT_THAT(refused->why, HasSubstr("it was changed"));
  EXPECT_EQ(loader.position(), Position{});
}

TEST(State, SaysWhatItIs) {
  Loader loader(counting(100), {.global_batch_size = 7, .shards = 9, .seed = 3});
  static_cast<void>(loader.next());
  const std::string text = state(loader);
  EXPECT_TRUE(text.starts_with(R"({"rota_state":1,"kind":"Loader","order":{"version":1,"dataset":")"))
      << text;
  const json parsed = json::parse(text);
  EXPECT_EQ(parsed["position"], json({{"epoch", 0}, {"consumed", 7}, {"step", 1}}));
  EXPECT_EQ(parsed["order"]["dataset"], to_string(loader.fingerprint()));
  EXPECT_EQ(parsed["order"]["seed"], "3");
  EXPECT_EQ(parsed["skipped"], 0);
}

TEST(State, CountsWhatWasSkippedBeforeTheLastStepAndListsNothing) {
  const auto source = faulty(100, true);
  source->corrupt = {0, 3, 11, 25};
  const auto make = [&](std::int64_t limit) {
    return Loader(source, {.global_batch_size = 10,
                           .shards = 1,
                           .shuffle = Shuffle::none,
                           .bad_samples = {.policy = OnBadSample::skip, .max_skipped = limit}});
  };
  Loader loader = make(1000);
  for (int k = 0; k < 2; ++k) static_cast<void>(loader.next());
  EXPECT_EQ(loader.skipped().count, 3);
  Loader resumed = make(3);
  restore(resumed, state(loader));
  EXPECT_EQ(resumed.skipped().count, 2);
  EXPECT_THAT(resumed.skipped().samples, IsEmpty());
  static_cast<void>(resumed.next());
  Loader again = make(2);
  restore(again, state(resumed));
  EXPECT_EQ(again.skipped().count, 2);
  static_cast<void>(again.next());
  EXPECT_EQ(again.skipped().count, 2);
}

TEST(State, OfAnotherRunIsRefusedWithBothValues) {
  const std::string text = state(Loader(counting(100), {.shards = 9, .seed = 3}));
  Loader other(counting(100), {.shards = 9, .seed = 4});
  const auto refused = test::refused([&] { restore(other, text); });
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code, ErrorCode::mismatch);
  EXPECT_EQ(
      refused->why,
      "restore a loader from a text: the seed differs: the text has 3, this loader has 4; a run can only "
      "go on in the order that it began");
}

/// Texts that are no state, whatever they look like.
class HostileText : public ::testing::Test {
 protected:
  void refuses(const std::string& text, const std::string& why) {
    const auto refused = test::refused([&] { restore(loader_, text); });
    ASSERT_TRUE(refused) << text.substr(0, 200);
    EXPECT_EQ(refused->code, ErrorCode::corrupt) << refused->why;
    EXPECT_THAT(refused->why, HasSubstr(why));
    EXPECT_LT(refused->why.size(), 2000U);
    EXPECT_EQ(loader_.position(), Position{});
  }
  /// The state with `key` of `object` set to what JSON `value` says.
  [[nodiscard]] std::string with(const char* object, const char* key, const std::string& value) const {
    json state = json::parse(good_);
    (*object == '\0' ? state : state[object])[key] = "HERE";
    std::string text = state.dump();
    return text.replace(text.find("\"HERE\""), 6, value);
  }

  Loader loader_{counting(100), {.shards = 9, .seed = 3}};
  std::string good_ = state(loader_);
};

TEST_F(HostileText, ThatIsNoJsonIsRefused) {
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("nothing"), std::string(100, '\0'),
        std::string("\xff\xfe"), good_ + "x", good_ + good_, good_.substr(0, 200)}) {
    refuses(text, "it is no JSON");
  }
  refuses("[]", "is no object");
  refuses("{}", "\"rota_state\" of its state is missing");
}

TEST_F(HostileText, NestedWithoutEndIsRefused) {
  std::string lists;
  lists.resize(10'000'000, '[');
  refuses(lists, "nested deeper than 8");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  refuses(objects, "nested deeper than 8");
  refuses(with("", "more", std::string(9, '[') + std::string(9, ']')), "nested deeper than 8");
}

TEST_F(HostileText, WithAKeyTwiceIsRefused) {
  refuses(R"({"rota_state":1,)" + good_.substr(1), "\"rota_state\" comes twice");
  std::string text = good_;
  text.insert(text.find("\"step\""), "\"step\":0,");
  refuses(text, "\"step\" comes twice");
}

TEST_F(HostileText, WithNumbersThatAreNoneIsRefused) {
  for (const char* key : {"epoch", "consumed", "step"}) {
    for (const std::string value :
         {"-1", "1.5", "1e3", "\"7\"", "null", "true", "[]", "{}", "4611686018427387905",
          "9223372036854775808", "18446744073709551615", "99999999999999999999999", "-9223372036854775808"}) {
      refuses(with("position", key, value), std::string("\"position.") + key + "\" of its state");
    }
    refuses(with("position", key, "1e999"), "it is no JSON");
  }
}

TEST_F(HostileText, WithWrongTypesOrWithoutAKeyIsRefused) {
  const json state = json::parse(good_);
  for (const auto& [key, value] : state.items()) {
    if (key == "skipped") continue;
    json missing = state;
    missing.erase(key);
    refuses(missing.dump(), "\"" + key + "\" of its state is missing");
    refuses(with("", key.c_str(), "[[]]"), key);
    if (!value.is_object()) continue;
    for (const auto& [inner, unused] : value.items()) {
      json without = state;
      without[key].erase(inner);
      const std::string name = fmt::format("{}.{}", key, inner);
      refuses(without.dump(), "\"" + name + "\" of its state is missing");
      refuses(with(key.c_str(), inner.c_str(), "[[]]"), name);
    }
  }
}

TEST_F(HostileText, WithAMixtureThatIsNoneIsRefused) {
  Loader mixed = scenarios()[3].make(0, {});
  const json state = json::parse(rota::state(mixed));
  for (const char* bad :
       {R"("x")", R"({"weights":[1,2],"changed_at":0})", R"({"weights":1,"changed_at":0,"counts":[0,0]})",
        R"({"weights":["1",2],"changed_at":0,"counts":[0,0]})",
        R"({"weights":[70000,1],"changed_at":0,"counts":[0,0]})"}) {
    json changed = state;
    changed["mixture"] = json::parse(bad);
    const auto refused = test::refused([&] { restore(mixed, changed.dump()); });
    ASSERT_TRUE(refused) << bad;
    EXPECT_EQ(refused->code, ErrorCode::corrupt) << refused->why;
  }
}

TEST_F(HostileText, OfANewerVersionIsUnsupportedWhateverElseIsInIt) {
  const auto refused = test::refused([&] { restore(loader_, R"({"rota_state":2,"place":[]})"); });
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code, ErrorCode::unsupported);
  EXPECT_THAT(refused->why, AllOf(HasSubstr("is of version 2"), HasSubstr("reads up to 1")));
}

}  // namespace rota::test::state_test
