// Reads that do not end: the loader says what they are of.

#include <future>
#include <latch>

#include "source/told_source.hpp"
#include "test.hpp"

namespace rota::test::slow_read_test {

/// A source that hangs in all reads of a sample, until it is let go.
class Hanging {
 public:
  explicit Hanging(std::int64_t hangs) {
    source->on_read = [this, hangs](SampleId id) {
      if (id.value == hangs) let_go_.wait();
    };
  }
  void let_go() { let_go_.count_down(); }

  std::shared_ptr<ToldSource> source = faulty(40, false);

 private:
  std::latch let_go_{1};
};

std::vector<std::int64_t> read_all(Loader& loader) {
  std::vector<std::int64_t> ids;
  while (const auto batch = loader.next()) {
    for (const SampleId id : batch->ids()) ids.push_back(id.value);
  }
  return ids;
}

LoaderOptions in_order(int workers) {
  return {.global_batch_size = 10, .shards = 1, .shuffle = Shuffle::none, .workers = workers};
}

TEST(SlowRead, IsNamedAgainAndAgainAndLosesNothing) {
  Hanging hanging(17);
  std::vector<std::string> told;
  LoaderOptions options = in_order(2);
  options.slow_after = std::chrono::milliseconds(5);
  options.on_slow = [&](const std::string& message) {
    told.push_back(message);
    if (told.size() == 3) hanging.let_go();
  };
  Loader loader(hanging.source, options);
  EXPECT_THAT(read_all(loader), SizeIs(40));
  ASSERT_GE(told.size(), 3U);
  EXPECT_THAT(told[2], AllOf(HasSubstr("worker 1 has been at 5 of the 10 samples of step 1 for "),
                             HasSubstr("the first of which is sample 15 (place-15)")));
}

TEST(SlowRead, IsPrintedWhereNobodyIsToBeTold) {
  Hanging hanging(0);
  LoaderOptions options = in_order(1);
  options.slow_after = std::chrono::milliseconds(5);
  ::testing::internal::CaptureStderr();
  {
    Loader loader(hanging.source, options);
    const auto later = std::async(std::launch::async, [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      hanging.let_go();
    });
    EXPECT_THAT(read_all(loader), SizeIs(40));
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("rota: next() waits: worker 0 has been at 10"));
}

TEST(SlowRead, IsNotNamedWhereItIsNotToBe) {
  Hanging hanging(0);
  LoaderOptions options = in_order(1);
  options.slow_after = {};
  options.on_slow = [](const std::string& message) { ADD_FAILURE() << message; };
  Loader loader(hanging.source, options);
  const auto later = std::async(std::launch::async, [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    hanging.let_go();
  });
  EXPECT_THAT(read_all(loader), SizeIs(40));
}

}  // namespace rota::test::slow_read_test
