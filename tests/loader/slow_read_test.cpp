// Reads that do not end: the loader says what they are of.

#include <future>

#include "loader/faulty_source.hpp"
#include "test.hpp"

namespace rota::test::slow_read_test {

/// Hangs in all reads of a sample, until it is let go.
class HangingSource : public FaultySource {
 public:
  explicit HangingSource(std::int64_t hangs) : FaultySource(40, false), hangs_(hangs) {}
  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    for (const SampleId id : ids) {
      if (id.value == hangs_) let_go_.wait();
    }
    FaultySource::read(ids, out);
  }
  void let_go() { gate_.set_value(); }

 private:
  std::int64_t hangs_;
  std::promise<void> gate_;
  std::shared_future<void> let_go_ = gate_.get_future();
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
  const auto source = std::make_shared<HangingSource>(17);
  std::vector<std::string> told;
  LoaderOptions options = in_order(2);
  options.slow_after = std::chrono::milliseconds(5);
  options.on_slow = [&](const std::string& message) {
    told.push_back(message);
    if (told.size() == 3) source->let_go();
  };
  Loader loader(source, options);
  EXPECT_THAT(read_all(loader), SizeIs(40));
  ASSERT_GE(told.size(), 3U);
  EXPECT_THAT(told[2], AllOf(HasSubstr("worker 1 has been at 5 of the 10 samples of step 1 for "),
                             HasSubstr("the first of which is sample 15 (place-15)")));
}

TEST(SlowRead, IsPrintedWhereNobodyIsToBeTold) {
  const auto source = std::make_shared<HangingSource>(0);
  LoaderOptions options = in_order(1);
  options.slow_after = std::chrono::milliseconds(5);
  ::testing::internal::CaptureStderr();
  {
    Loader loader(source, options);
    const auto later = std::async(std::launch::async, [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      source->let_go();
    });
    EXPECT_THAT(read_all(loader), SizeIs(40));
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("rota: next() waits: worker 0 has been at 10"));
}

TEST(SlowRead, IsNotNamedWhereItIsNotToBe) {
  const auto source = std::make_shared<HangingSource>(0);
  LoaderOptions options = in_order(1);
  options.slow_after = {};
  options.on_slow = [](const std::string& message) { ADD_FAILURE() << message; };
  Loader loader(source, options);
  const auto later = std::async(std::launch::async, [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    source->let_go();
  });
  EXPECT_THAT(read_all(loader), SizeIs(40));
}

}  // namespace rota::test::slow_read_test
