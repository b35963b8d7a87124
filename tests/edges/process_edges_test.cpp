// What threads and locks do not survive: a fork, a move.

#include "edges/edge.hpp"
#include "source/told_source.hpp"
#include "stream/numbered_stream.hpp"
#include "test.hpp"
#include "unprivileged.hpp"

namespace rota::test::process_edges_test {

constexpr auto kInvalid = ErrorCode::invalid_argument;

Loader make_loader(int workers = 2) { return {counting(20), {.global_batch_size = 4, .workers = workers}}; }
StreamLoader make_stream() {
  return StreamLoader(std::make_shared<rota::test::NumberedStream>(std::vector<std::int64_t>{9, 9}),
                      {.global_batch_size = 4, .workers = 2});
}

/// In a forked child, `call` must throw Error{unsupported} that says so; and the child must end.
Edge forked(std::string test, std::function<std::function<void()>()> make) {
  const auto call = [make = std::move(make)] {
    const auto use = make();
    const std::string error = rota::test::error_as_nobody(use);
    EXPECT_TRUE(error.starts_with("unsupported: ")) << error;
    EXPECT_NE(error.find("forked"), std::string::npos) << error;
  };
  return {"Forked" + std::move(test), call};
}

template <typename Object, typename Use>
std::function<void()> used(std::shared_ptr<Object> object, Use use) {
  return [object, use] { use(*object); };
}

std::vector<Edge> forks() {
  const auto loader = [](auto use) {
    return [use] { return used(std::make_shared<Loader>(make_loader()), use); };
  };
  const auto stream = [](auto use) {
    return [use] { return used(std::make_shared<StreamLoader>(make_stream()), use); };
  };
  return {
      forked("LoaderNext", loader([](Loader& l) { l.next(); })),
      forked("LoaderWarmUp", loader([](Loader& l) { l.warm_up(); })),
      forked("LoaderSeek", loader([](Loader& l) { l.seek({}); })),
      forked("LoaderPosition", loader([](Loader& l) { std::ignore = l.position(); })),
      forked("LoaderState", loader([](Loader& l) { std::ignore = rota::state(l); })),
      forked("StreamNext", stream([](StreamLoader& l) { l.next(); })),
      forked("StreamState", stream([](StreamLoader& l) { std::ignore = rota::state(l); })),
      {"ForkedLoaderEndsInTheChildAndGoesOnInTheParent",
       [] {
         auto one = std::make_unique<Loader>(make_loader());
         one->warm_up();
         EXPECT_EQ(rota::test::error_as_nobody([&] { one.reset(); }), "");
         std::int64_t seen = 0;
         for (const rota::Batch& batch : *one) seen += batch.size();
         EXPECT_EQ(seen, 20);
       }},
      {"ForkedStreamEndsInTheChildAndGoesOnInTheParent",
       [] {
         auto one = std::make_unique<StreamLoader>(make_stream());
         EXPECT_EQ(rota::test::error_as_nobody([&] { one.reset(); }), "");
         std::int64_t seen = 0;
         while (const auto batch = one->next()) seen += batch->size();
         EXPECT_EQ(seen, 18);
       }},
      {"ForkedDirectoryStaysLockedByTheParent",
       [] {
         const rota::test::TemporaryDirectory temporary;
         const rota::mpi::Communicator alone;
         auto directory = std::make_unique<CheckpointDirectory>(alone, temporary / "c");
         directory->save_async(1, Snapshot());
         EXPECT_EQ(rota::test::error_as_nobody([&] { directory.reset(); }), "");
         EXPECT_TRUE(directory->wait().has_value());
         EXPECT_THROW(CheckpointDirectory(alone, temporary / "c"), rota::Error);
       }},
      {"ForkedDirectoryIsRefused",
       [] {
         const rota::test::TemporaryDirectory temporary;
         CheckpointDirectory directory(rota::mpi::Communicator(), temporary / "c");
         const std::string error = rota::test::error_as_nobody([&] { directory.save(1, Snapshot()); });
         EXPECT_TRUE(error.starts_with("unsupported: ")) << error;
       }},
  };
}

template <typename Object>
void moved(Object& object) {
  const Object to = std::move(object);
}

std::vector<Edge> moves() {
  const auto loader = [](std::string test, auto use) {
    return Edge{"Loader" + std::move(test),
                [use] {
                  Loader from = make_loader();
                  moved(from);
                  use(from);
                },
                kInvalid, "moved from"};
  };
  const auto batch = [](std::string test, auto use, std::optional<ErrorCode> code = {},
                        std::string says = {}) {
    return Edge{"Batch" + std::move(test), [use] { use(rota::Batch()); }, code, std::move(says)};
  };
  return {
      loader("Next", [](Loader& l) { l.next(); }),
      loader("Seek", [](Loader& l) { l.seek({}); }),
      loader("Stats", [](Loader& l) { std::ignore = l.stats(); }),
      loader("Skipped", [](Loader& l) { std::ignore = l.skipped(); }),
      loader("Options", [](Loader& l) { std::ignore = l.options(); }),
      loader("When", [](Loader& l) { std::ignore = l.when({}, 0); }),
      loader("State", [](Loader& l) { std::ignore = rota::state(l); }),
      loader("Restore", [](Loader& l) { rota::restore(l, rota::state(make_loader())); }),
      {"LoaderToItself",
       [] {
         Loader one = make_loader();
         Loader& same = one;
         one = std::move(same);
         EXPECT_TRUE(one.next().has_value());
       }},
      {"LoaderAndBack",
       [] {
         Loader one = make_loader();
         Loader other = std::move(one);
         one = std::move(other);
         EXPECT_TRUE(one.next().has_value());
       }},
      batch("Size", [](const rota::Batch& b) { EXPECT_EQ(b.size(), 0); }),
      batch("Ids", [](const rota::Batch& b) { EXPECT_TRUE(b.ids().empty()); }),
      batch("Marks", [](const rota::Batch& b) { EXPECT_TRUE(b.kinds().empty()); }),
      batch("Fields", [](const rota::Batch& b) { EXPECT_TRUE(b.fields().empty()); }),
      batch("Real", [](const rota::Batch& b) { EXPECT_EQ(b.real(), 0); }),
      batch(
          "TensorOfAName", [](const rota::Batch& b) { std::ignore = b.tensor("x"); }, kInvalid,
          "it is empty"),
  };
}

std::vector<Edge> states() {
  const auto restore = [](std::string test, std::string text, ErrorCode code, std::string says = {}) {
    const auto call = [text] {
      Loader loader = make_loader();
      rota::restore(loader, text);
    };
    return Edge{std::move(test), call, code, std::move(says)};
  };
  const auto changed = [](std::string test, std::string from, std::string to, ErrorCode code,
                          std::string says) {
    const auto call = [from, to] {
      Loader loader = make_loader();
      std::string text = rota::state(loader);
      const auto at = text.find(from);
      if (at == std::string::npos) throw std::logic_error(text);
      rota::restore(loader, text.replace(at, from.size(), to));
    };
    return Edge{std::move(test), call, code, std::move(says)};
  };
  constexpr auto kCorrupt = ErrorCode::corrupt;
  return {
      restore("Empty", "", kCorrupt, "JSON"),
      restore("NoJson", "hello", kCorrupt, "JSON"),
      restore("Null", "null", kCorrupt, "no object"),
      restore("EmptyObject", "{}", kCorrupt, "rota_state"),
      restore("Array", "[1,2]", kCorrupt, "no object"),
      restore("Deep", std::string(100'000, '['), kCorrupt, "nested"),
      restore("NewerVersion", R"({"rota_state": 99, "kind": "Loader"})", ErrorCode::unsupported, "99"),
      restore("KeyTwice", R"({"rota_state": 1, "rota_state": 1})", kCorrupt, "twice"),
      restore("OfAStream", rota::state(make_stream()), ErrorCode::mismatch, "StreamLoader"),
      changed("AnotherSeed", R"("seed":"0")", R"("seed":"1")", ErrorCode::mismatch, "the seed differs"),
      changed("AnotherShuffle", R"("global")", R"("none")", ErrorCode::mismatch, "the shuffle differs"),
      changed("AnotherNumberOfShards", R"("shards":256)", R"("shards":255)", ErrorCode::mismatch,
              "the text has 255"),
      changed("NegativeEpoch", R"("epoch":0)", R"("epoch":-1)", kCorrupt, "\"position.epoch\""),
      changed("EpochAsText", R"("epoch":0)", R"("epoch":"0")", kCorrupt, "\"position.epoch\""),
      changed("PlaceBeyondTheEpoch", R"("consumed":0)", R"("consumed":21)", kCorrupt, "sample 21"),
      changed("StepBeyondAllNumbers", R"("step":0)", R"("step":9223372036854775808)", kCorrupt,
              "\"position.step\""),
      changed("BytesBehind", R"({"rota)", R"({} {"rota)", kCorrupt, "JSON"),
  };
}

ROTA_EDGES(Fork, forks);
ROTA_EDGES(Moved, moves);
ROTA_EDGES(StateText, states);

}  // namespace rota::test::process_edges_test
