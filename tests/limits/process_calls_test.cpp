// What threads and locks do not survive: a fork.

#include "limits/refusals.hpp"
#include "limits/told_stream.hpp"
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
  expect_refused_in_a_child([&] { loader.settle({}, {}); });
  expect_refused_in_a_child([&] { loader.position(); });
  expect_refused_in_a_child([&] { state(loader); });
  StreamLoader stream = make_stream();
  EXPECT_EQ(samples_left(stream), 18);
  expect_refused_in_a_child([&] { (void)stream.next(); });
  expect_refused_in_a_child([&] { state(stream); });
}

TEST(Fork, OfALoaderEndsInTheChildAndGoesOnInTheParent) {
  auto loader = std::make_unique<Loader>(make_loader());
  loader->warm_up();
  EXPECT_EQ(error_as_nobody([&] { loader.reset(); }), "");
  EXPECT_EQ(samples_left(*loader), 20);
  auto stream = std::make_unique<StreamLoader>(make_stream());
  EXPECT_EQ(error_as_nobody([&] { stream.reset(); }), "");
  EXPECT_EQ(samples_left(*stream), 18);
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

}  // namespace rota::test::process_calls_test
