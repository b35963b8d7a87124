// The state as a text: a run goes on from it in any world, and it is small, readable and not believed.

#include <nlohmann/json.hpp>

#include "loader/course.hpp"

namespace rota::test::state_test {

using nlohmann::json;

/// Orders of all kinds, the last of them of a mixture.
std::vector<Course> courses() {
  const Course base{.source = counting(61),
                    .options = {.global_batch_size = 7, .shards = 5, .seed = ~std::uint64_t{0}, .epochs = 2}};
  std::vector<Course> all(4, base);
  all[1].options.interleave = 2;
  all[1].options.shuffle = Shuffle::within;
  all[1].options.tail = Tail::carry;
  all[2].options.shuffle = Shuffle::block;
  all[2].options.block = {.samples = 4, .blocks = 3};
  all[2].options.tail = Tail::pad;
  all[3].source = nullptr;
  all[3].mixture = {.datasets = {{counting(20), 1}, {counting(30), 2.5}}, .end = MixtureEnd::all_exhausted};
  return all;
}

Loader mixed(int workers) {
  Course course = courses()[3];
  course.options.workers = workers;
  return course.make(World{});
}

TEST(State, TakenAtEveryStepGoesOnExactlyInAnyWorldWithAnyNumberOfWorkers) {
  for (Course course : courses()) {
    const std::vector<Step> steps = course.unbroken();
    Loader whole = course.make(World{});
    for (std::size_t at = 0; at <= steps.size(); ++at) {
      const std::string then = state(whole);
      course.options.workers = static_cast<int>(at % 3);
      SideBySide ranks(1 + static_cast<int>(at % 4), [&](World world) { return course.make(world); });
      ranks.each([&](Loader& loader) { restore(loader, then); });
      for (std::size_t k = at; k < steps.size(); ++k) {
        ranks.each([&](Loader& loader) { ASSERT_EQ(state(loader), state(ranks.front())) << "on all ranks"; });
        ASSERT_EQ(ranks.step(), steps[k]) << "from step " << at << " on, step " << k;
      }
      EXPECT_EQ(ranks.step(), std::nullopt);
      (void)whole.next();
    }
  }
}

TEST(State, GoesBackInALoaderThatHasReadOn) {
  Loader loader = mixed(2);
  for (int k = 0; k < 3; ++k) (void)loader.next();
  loader.set_weights(std::vector<double>{5, 1});
  const std::string then = state(loader);
  const Position position = loader.position();
  const MixtureState mixture = *loader.mixture();
  (void)loader.next();
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
  EXPECT_LE(longest, 600U);
  RecordProperty("bytes", static_cast<int>(longest));
  const Numbers lengths(10'000, 2);
  EXPECT_LE(state(Loader(counting(20'000, lengths), {.shards = 10'000})).size(), 600U) << "ragged";
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
  Loader loader = mixed(1);
  (void)loader.next();
  json parsed = json::parse(state(loader));  // whose keys are sorted
  Loader other = mixed(0);
  restore(other, parsed.dump(2));
  EXPECT_EQ(other.position(), loader.position());
  EXPECT_EQ(state(other), state(loader));
}

TEST(State, IsRefusedWhereItWasChangedToAnotherPlace) {
  Loader loader(counting(100), {.global_batch_size = 7, .shards = 9});
  json changed = json::parse(state(loader));
  changed["position"]["consumed"] = 7;
  changed["position"]["step"] = 1;
  EXPECT_ERROR(restore(loader, changed.dump()), corrupt, {"it was changed"});
  EXPECT_EQ(loader.position(), Position{});
}

TEST(State, SaysWhatItIs) {
  Loader loader(counting(100), {.global_batch_size = 7, .shards = 9, .seed = 3});
  (void)loader.next();
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
    return Loader(source, in_order(10, 1, {.policy = BadSamples::Policy::skip, .max_skipped = limit}));
  };
  Loader loader = make(1000);
  for (int k = 0; k < 2; ++k) (void)loader.next();
  EXPECT_EQ(loader.skipped().count, 3);
  Loader resumed = make(3);
  restore(resumed, state(loader));
  EXPECT_EQ(resumed.skipped().count, 2);
  EXPECT_THAT(resumed.skipped().samples, IsEmpty());
  (void)resumed.next();
  Loader again = make(2);
  restore(again, state(resumed));
  EXPECT_EQ(again.skipped().count, 2);
  (void)again.next();
  EXPECT_EQ(again.skipped().count, 2);
}

/// Texts that are no state, whatever they look like.
class HostileText : public Test {
 protected:
  void refuses(const std::string& text, const std::string& why) {
    const auto error = error_of([&] { restore(loader_, text); });
    ASSERT_THAT(error, is_error(corrupt, {why})) << text.substr(0, 200);
    EXPECT_LT(std::strlen(error->what()), 2000U);
    EXPECT_EQ(loader_.position(), Position{});
  }
  /// The state with `key` of `object` set to what JSON `value` says.
  std::string with(const char* object, const char* key, const std::string& value) const {
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
  Loader loader = mixed(0);
  const json state = json::parse(rota::state(loader));
  for (const char* bad :
       {R"("x")", R"({"weights":[1,2],"changed_at":0})", R"({"weights":1,"changed_at":0,"counts":[0,0]})",
        R"({"weights":["1",2],"changed_at":0,"counts":[0,0]})",
        R"({"weights":[70000,1],"changed_at":0,"counts":[0,0]})"}) {
    json changed = state;
    changed["mixture"] = json::parse(bad);
    EXPECT_ERROR(restore(loader, changed.dump()), corrupt, {}) << bad;
  }
}

TEST_F(HostileText, OfANewerVersionIsUnsupportedWhateverElseIsInIt) {
  EXPECT_ERROR(restore(loader_, R"({"rota_state":4,"place":[]})"), unsupported,
               {"is of version 4", "reads up to 3"});
}

}  // namespace rota::test::state_test
