// What threads and locks do not survive: a fork. And what a text of a state may not say.

#include "limits/refusals.hpp"
#include "limits/told_stream.hpp"
#include "test.hpp"
#include "unprivileged.hpp"

namespace rota::test::process_calls_test {

Loader make_loader() { return {told(20), {.global_batch_size = 4, .workers = 2}}; }
StreamLoader make_stream() { return StreamLoader(told_stream(6), {.global_batch_size = 4, .workers = 2}); }

/// In a forked child, `call` throws the error that says so; and the child ends.
void expect_refused_in_a_child(const std::function<void()>& call) {
  EXPECT_THAT(error_as_nobody(call), AllOf(StartsWith("unsupported: "), HasSubstr("forked")));
}

// Workers are idle when it forks: a sanitizer's allocator has locks that are nobody's in the child.
TEST(Fork, IsSaidByEachCallOfALoaderInTheChild) {
  Loader loader = make_loader();
  loader.warm_up();
  expect_refused_in_a_child([&] { (void)loader.next(); });
  expect_refused_in_a_child([&] { loader.warm_up(); });
  expect_refused_in_a_child([&] { loader.seek({}); });
  expect_refused_in_a_child([&] { loader.position(); });
  expect_refused_in_a_child([&] { state(loader); });
  StreamLoader stream = make_stream();
  EXPECT_EQ(count(stream), 18);
  expect_refused_in_a_child([&] { (void)stream.next(); });
  expect_refused_in_a_child([&] { state(stream); });
}

TEST(Fork, OfALoaderEndsInTheChildAndGoesOnInTheParent) {
  auto loader = std::make_unique<Loader>(make_loader());
  loader->warm_up();
  EXPECT_EQ(error_as_nobody([&] { loader.reset(); }), "");
  std::int64_t seen = 0;
  for (const Batch& batch : *loader) seen += batch.size();
  EXPECT_EQ(seen, 20);
  auto stream = std::make_unique<StreamLoader>(make_stream());
  EXPECT_EQ(error_as_nobody([&] { stream.reset(); }), "");
  EXPECT_EQ(count(*stream), 18);
}

TEST(Fork, LeavesADirectoryLockedByTheParent) {
  const TemporaryDirectory temporary;
  auto directory = std::make_unique<CheckpointDirectory>(Communicator(), temporary / "c");
  expect_refused_in_a_child([&] { directory->save(1, Snapshot()); });
  directory->save_async(1, Snapshot());
  EXPECT_EQ(error_as_nobody([&] { directory.reset(); }), "");
  EXPECT_TRUE(directory->wait().has_value());
  EXPECT_THROW(CheckpointDirectory({}, temporary / "c"), Error);
}

TEST(StateText, ThatIsNoneIsRefused) {
  Loader loader = make_loader();
  const auto refuses = [&](ErrorCode code, const std::string& why, const std::string& text) {
    SCOPED_TRACE(text.substr(0, 99));
    refused(code, {why}, [&] { restore(loader, text); });
  };
  refuses(kCorrupt, "JSON", "");
  refuses(kCorrupt, "JSON", "hello");
  refuses(kCorrupt, "no object", "null");
  refuses(kCorrupt, "rota_state", "{}");
  refuses(kCorrupt, "no object", "[1,2]");
  refuses(kCorrupt, "nested", std::string(100'000, '['));
  refuses(kCorrupt, "twice", R"({"rota_state": 1, "rota_state": 1})");
  refuses(ErrorCode::unsupported, "99", R"({"rota_state": 99, "kind": "Loader"})");
  refuses(ErrorCode::mismatch, "StreamLoader", state(make_stream()));
}

TEST(StateText, ThatWasChangedIsRefused) {
  Loader loader = make_loader();
  const auto refuses = [&](ErrorCode code, const std::string& why, const std::string& from,
                           const std::string& to) {
    std::string text = state(loader);
    SCOPED_TRACE(to);
    ASSERT_NE(text.find(from), text.npos) << text;
    text.replace(text.find(from), from.size(), to);
    refused(code, {why}, [&] { restore(loader, text); });
  };
  refuses(ErrorCode::mismatch, "the seed differs", R"("seed":"0")", R"("seed":"1")");
  refuses(ErrorCode::mismatch, "the shuffle differs", R"("global")", R"("none")");
  refuses(ErrorCode::mismatch, "the text has 255", R"("shards":256)", R"("shards":255)");
  refuses(kCorrupt, "\"position.epoch\"", R"("epoch":0)", R"("epoch":-1)");
  refuses(kCorrupt, "\"position.epoch\"", R"("epoch":0)", R"("epoch":"0")");
  refuses(kCorrupt, "sample 21", R"("consumed":0)", R"("consumed":21)");
  refuses(kCorrupt, "\"position.step\"", R"("step":0)", R"("step":9223372036854775808)");
  refuses(kCorrupt, "JSON", R"({"rota)", R"({} {"rota)");
}

}  // namespace rota::test::process_calls_test
