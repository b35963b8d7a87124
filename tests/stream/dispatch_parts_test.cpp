// What a dispatch is made of, in one process: the arithmetic of who gets what, items as bytes, and messages.

#include "source/reading.hpp"
#include "stream/dispatched.hpp"
#include "stream/step_builder.hpp"

namespace rota::test::dispatch_parts_test {

TEST(DispatchPlan, CountsWhatAShardHasHad) {
  const DispatchPlan plan{.shards = 3};
  for (std::int64_t items = 0; items < 20; ++items) {
    Numbers counts(3);
    for (std::int64_t i = 0; i < items; ++i) ++counts[static_cast<std::size_t>(plan.shard_of(i).value)];
    for (std::int64_t s = 0; s < 3; ++s) {
      EXPECT_EQ(plan.count_of({s}, items), counts[static_cast<std::size_t>(s)]);
    }
  }
}

TEST(RecordLayout, BelievesNoLengthThatIsNotThere) {
  const NumberedStream source({10});
  const RecordLayout layout(source.fields());
  StreamSample sample(source.fields());
  SampleMemory::own(sample);
  const auto stream = source.open({0}, 0, {});
  for (int i = 0; i < 4; ++i) stream->next(sample);
  std::vector<std::byte> record;
  layout.append(sample, record);
  EXPECT_EQ(record.size(), 8U + 16 + 3);
  EXPECT_EQ(layout.first(record).size(), record.size());
  for (std::size_t size = 0; size < record.size(); ++size) {
    EXPECT_THROW(static_cast<void>(layout.first(ByteSpan(record).first(size))), Error) << size;
  }
  for (const std::int64_t rows : {std::int64_t{-1}, std::int64_t{4}, std::int64_t{1} << 62}) {
    std::memcpy(record.data(), &rows, sizeof(rows));
    EXPECT_THROW(static_cast<void>(layout.first(record)), Error) << rows;
  }
}

// Two items, one for each rank. What is refused is refused when it is tried again.
TEST(StepBuilder, RefusesWhatNoMessageHoldsButNoByteLessAndNothingThatNeedsNoMessage) {
  const NumberedStream source({2});
  const RecordLayout layout(source.fields());
  constexpr std::size_t kOther = sizeof(MessageHead) + 8 + 16 + 1;  // one byte more than that of rank 0
  const auto errors = [&](std::int64_t shards, std::size_t most_bytes) {
    const DispatchPlan plan{.shards = shards, .split = Split::by_shard, .ranks = 2, .most_bytes = most_bytes};
    StepBuilder builder(source, layout, plan, {.global_batch_size = 2, .workers = 0}, {});
    std::int64_t refused = 0;
    for (int attempt = 0; attempt < 2; ++attempt) {
      builder.resume();
      const StepMessages messages = builder.wait();
      if (!messages.error) break;
      EXPECT_ERROR(std::rethrow_exception(messages.error), out_of_range,
                   {"dispatch items 0 to 1 of epoch 0: a rank's share of them is"});
      builder.drop(messages);
      ++refused;
    }
    return refused;
  };
  EXPECT_EQ(errors(2, kOther), 2);
  EXPECT_EQ(errors(2, kOther + 1), 0);
  EXPECT_EQ(errors(1, kOther), 0) << "both are of rank 0";
}

TEST(MessageMemory, GivesAgainWhatIsOver) {
  ranks::MessageMemory memory(2);
  const auto* const first = memory.take(1000)->data();
  auto message = memory.take(1050);
  EXPECT_EQ(message->data(), first) << "nearly as large";
  EXPECT_EQ(message->size(), 1050U);
  EXPECT_NE(memory.take(1000)->data(), first) << "still in use";
  message.reset();
  EXPECT_NE(memory.take(1 << 20)->data(), first);
  EXPECT_LT(memory.take(1000)->capacity(), 2000U) << "no small message in the memory of a large one";
}

// Nothing of a pipe may be read before it is known what of it is gone.
TEST(StepBuilder, BeginsHeld) {
  NumberedStream source({10});
  std::atomic<int> read = 0;
  source.on_read = [&](StreamId) { ++read; };
  const RecordLayout layout(source.fields());
  {
    StepBuilder builder(source, layout, {}, {.global_batch_size = 4}, {});
    builder.pause();
    KeptSamples pending;
    EXPECT_EQ(builder.add_pending(pending).shard.position, 0);
    EXPECT_TRUE(pending.empty());
    EXPECT_EQ(read, 0);
    builder.resume();
    EXPECT_EQ(builder.wait().head.count, 4);
  }
  EXPECT_GE(read, 4);
}

}  // namespace rota::test::dispatch_parts_test
