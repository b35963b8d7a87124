// Streams and what is made of them: saved behind any sample, they go on with the very samples that they would
// have gone on with.

#include <malloc.h>

#include "source/reading.hpp"
#include "source/told_source.hpp"
#include "stream/numbered_stream.hpp"

namespace rota::test::transforms_test {

using Pipeline = std::shared_ptr<const StreamSource>;

Pipeline numbers() { return numbered({23, 0, 1, 40}); }

// All kinds of streams, and chains of them.
std::map<std::string, Pipeline> pipelines() {
  return {{"plain", numbers()},
          {"indexed", as_stream(counting(64), 4)},
          {"filter", two_of_three(numbers())},
          {"flat_map", up_to_three(numbers())},
          {"shuffle", shuffle_buffer(numbers(), 7, 5)},
          {"shuffle of one", shuffle_buffer(numbers(), 1, 5)},
          {"shuffle of all", shuffle_buffer(numbers(), 1000, 5)},
          {"filter, flat_map, shuffle", mixed(numbers(), 5, 1)},
          {"shuffle, flat_map", up_to_three(shuffle_buffer(numbers(), 5, 1))},
          {"shuffle, filter, shuffle", shuffle_buffer(two_of_three(shuffle_buffer(numbers(), 4, 1)), 3, 2)}};
}

// Reads a shard, from behind sample `stop` on from its cursor.
std::vector<Seen> in_two(const StreamSource& source, ShardId shard, std::size_t stop) {
  const auto stream = source.open(shard, 1, {});
  StreamSample sample(source.fields());
  std::vector<Seen> all;
  while (all.size() < stop && stream->next(sample)) all.push_back(seen(sample));
  StreamCursor cursor;
  stream->cursor(cursor);
  EXPECT_EQ(std::ssize(cursor.numbers), source.cursor_numbers());
  const auto resumed = source.open(shard, 1, cursor);
  StreamCursor again{.numbers = {99}, .blob = "what was here before"};
  resumed->cursor(again);
  EXPECT_EQ(again, cursor);
  const auto rest = read_all(*resumed, source);
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

TEST(Transforms, SavedBehindAnySampleGoOnWithTheVerySamples) {
  for (const auto& [name, source] : pipelines()) {
    for (std::int64_t s = 0; s < source->shards(); ++s) {
      const std::vector<Seen> all = read_all(*source, {s}, 1);
      for (std::size_t stop = 1; stop <= all.size(); ++stop) {
        ASSERT_EQ(in_two(*source, {s}, stop), all) << name << ", shard " << s << ", sample " << stop;
      }
    }
  }
}

TEST(Transforms, GiveEachSampleAnIdOfItsOwn) {
  for (const auto& [name, source] : pipelines()) {
    std::set<StreamId> ids;
    for (std::int64_t s = 0; s < source->shards(); ++s) {
      for (const Seen& sample : read_all(*source, {s}, 1)) {
        EXPECT_TRUE(ids.insert(sample.first).second) << name << ": " << to_string(sample.first);
      }
    }
    EXPECT_FALSE(ids.empty()) << name;
  }
}

TEST(Transforms, AreTheSameEachTimeAndFollowTheEpoch) {
  for (const auto& [name, source] : pipelines()) {
    EXPECT_EQ(read_all(*source, {0}, 1), read_all(*source, {0}, 1)) << name;
    const bool is_random = name.find("shuffle") != std::string::npos && name != "shuffle of one";
    const bool is_other = read_all(*source, {0}, 1) != read_all(*source, {0}, 2);
    EXPECT_EQ(is_other, is_random || name.find("flat_map") != std::string::npos) << name;
  }
}

std::vector<StreamId> ids_of(const StreamSource& source, ShardId shard) {
  std::vector<StreamId> ids;
  for (const Seen& sample : read_all(source, shard)) ids.push_back(sample.first);
  return ids;
}

TEST(Filter, KeepsWhatItIsToldTo) {
  std::vector<StreamId> kept;
  for (const StreamId& id : ids_of(*numbers(), {0})) {
    if (id.input % 3 != 0) kept.push_back(id);
  }
  EXPECT_EQ(ids_of(*two_of_three(numbers()), {0}), kept);
}

TEST(Expand, NumbersWhatIsMadeOfASample) {
  const auto ids = ids_of(*up_to_three(numbers()), {0});
  const std::vector<StreamId> first{{{0}, 1, 0}, {{0}, 2, 0}, {{0}, 2, 1}, {{0}, 3, 0}};
  EXPECT_TRUE(std::equal(first.begin(), first.end(), ids.begin()));
}

TEST(Expand, KeepsIdsApartWhereSamplesAreExpandedTwice) {
  const FlatMapFunction twice = [](std::int64_t, const StreamSample& sample, StreamOutputs& outputs) {
    for (int k = 0; k < 2; ++k) outputs.add().set(0, sample.bytes(0));
  };
  const auto source = flat_map(flat_map(numbers(), twice, {.most = 2}), twice, {.most = 2});
  EXPECT_THAT(ids_of(*source, {2}), ElementsAre(StreamId{{2}, 0, 0}, StreamId{{2}, 0, 1}, StreamId{{2}, 0, 2},
                                                StreamId{{2}, 0, 3}));
}

TEST(ShuffleBuffer, HandsOutEachSampleOnceInAnotherOrder) {
  const auto plain = read_all(*numbers(), {3});
  auto mixed = read_all(*shuffle_buffer(numbers(), 8, 5), {3});
  EXPECT_NE(mixed, plain);
  EXPECT_NE(mixed, read_all(*shuffle_buffer(numbers(), 8, 6), {3}));
  for (std::size_t i = 0; i < mixed.size(); ++i) EXPECT_LT(mixed[i].first.input, std::int64_t(i) + 8);
  std::ranges::sort(mixed);
  EXPECT_EQ(mixed, plain);
}

TEST(ShuffleBuffer, KnowsWhatIsInIt) {
  const auto source = shuffle_buffer(numbers(), 8, 5);
  const auto stream = source->open({3}, 0, {});
  StreamSample sample(source->fields());
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(stream->next(sample));
  StreamCursor cursor;
  stream->cursor(cursor);
  EXPECT_EQ(source->remaining({3}, cursor), 35);
  EXPECT_EQ(source->remaining({3}, {}), 40);
}

TEST(StreamOf, HandsOutTheSamplesOfItsSourceShardByShard) {
  const auto source = as_stream(counting(10), 3);
  Numbers values;
  for (std::int64_t s = 0; s < 3; ++s) {
    for (const Seen& sample : read_all(*source, {s})) {
      values.push_back(0);
      std::memcpy(&values.back(), sample.second.data(), sizeof(std::int64_t));
    }
  }
  EXPECT_THAT(values, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_EQ(source->remaining({1}, {}), 3);
}

TEST(Cursors, ThatAreNotOfTheStreamAreRefused) {
  const auto source = shuffle_buffer(up_to_three(numbers()), 4, 1);
  const auto stream = source->open({0}, 0, {});
  StreamSample sample(source->fields());
  ASSERT_TRUE(stream->next(sample));
  StreamCursor good;
  stream->cursor(good);
  ASSERT_GT(good.blob.size(), 0U);
  std::vector<StreamCursor> bad{good, good, good, good};
  bad[0].numbers.pop_back();
  bad[1].numbers.back() = 1 << 20;
  bad[2].numbers[bad[2].numbers.size() - 2] = 1000;
  bad[3].blob[24] = '\x7f';  // rows of a fixed field
  for (const StreamCursor& cursor : bad) EXPECT_THROW(static_cast<void>(source->open({0}, 0, cursor)), Error);
  EXPECT_NO_THROW(static_cast<void>(source->open({0}, 0, good)));
}

TEST(StreamFingerprint, TellsSourcesAndTransformsApart) {
  const std::vector<Fingerprint> all{
      numbers()->fingerprint(),
      numbered({1, 2, 3})->fingerprint(),
      two_of_three(numbers())->fingerprint(),
      filter(
          numbers(), [](std::int64_t, const StreamSample&) { return true; }, "all")
          ->fingerprint(),
      shuffle_buffer(numbers(), 4, 1)->fingerprint(),
      shuffle_buffer(numbers(), 4, 2)->fingerprint(),
      shuffle_buffer(numbers(), 5, 1)->fingerprint(),
      up_to_three(numbers())->fingerprint()};
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(all[i], all[j]) << i << " and " << j;
  }
}

TEST(StreamIds, AreReadAsTheyAreWritten) {
  const StreamId id{.shard = {3}, .input = 1041, .output = 2};
  EXPECT_EQ(to_string(id), "3:1041:2");
  EXPECT_EQ(parse_stream_id("3:1041:2"), id);
  for (const char* bad : {"", "3", "3:1", "3:1:", "3:1:2:", "3:1:2:4", "-3:1:2", "3:x:2", " 3:1:2", "3:1:2 "})
    EXPECT_THROW(parse_stream_id(bad), Error) << bad;
}

TEST(StreamSample, ViewsOfAWrongTypeNameTheFieldAndBothTypes) {
  const std::vector<Field> fields{{.name = "x", .dtype = DType::float16, .shape = {4}},
                                  {.name = "text", .ragged = true}};
  const StreamSample sample(fields);
  EXPECT_EQ(sample.as<std::uint16_t>(0).size(), 4);
  EXPECT_EQ(sample.as<std::byte>(0).size(), 8);
  EXPECT_TRUE(sample.as<std::uint8_t>(1).empty());
  const auto expect_refused = [](ErrorCode code, const std::string& why, const auto& view) {
    EXPECT_ERROR(view(), code, {why});
  };
  expect_refused(mismatch, "view field \"x\" as float32: its elements are float16",
                 [&] { return sample.as<float>(0); });
  expect_refused(mismatch, "view field \"text\" as int8: its elements are uint8",
                 [&] { return sample.as<std::int8_t>(1); });
  expect_refused(out_of_range, "view field 2: there are 2", [&] { return sample.as<float>(2); });
}

TEST(Streams, ThatDoNotBeginWhereTheyAreToldToAreRefused) {
  for (const std::int64_t behind : {-1, 0, 1}) {
    const auto source = numbered({9, 9});
    StreamLoader loader(source, {.global_batch_size = 4, .workers = 0});
    (void)loader.next();
    const std::string saved = state(loader);
    source->on_open = [behind](std::int64_t, std::int64_t next) { return behind == 0 ? 0 : next + behind; };
    StreamLoader later(source, {.global_batch_size = 4, .workers = 0});
    restore(later, saved);
    EXPECT_ERROR(later.next(), callback, {"file-0", "open it behind cursor [2, 9]"});
  }
}

// Whatever was read: buffers, as much again for what they are restored from, batches, and 4 MiB.
TEST(Streams, TakeNoMoreMemoryThanTheirBuffersAndBatches) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "which have memory of their own";
#endif
  const auto in_use = [] {
    const auto all = ::mallinfo2();
    return static_cast<std::int64_t>(all.uordblks + all.hblkhd);
  };
  struct Case {
    std::int64_t batch, buffer, shards, bytes;
  };
  for (const auto& [batch, buffer, shards, bytes] :
       {Case{32, 100, 4, 20'000}, Case{512, 100, 4, 20'000}, Case{1024, 2, 1, 20'000},
        Case{64, 2000, 1, 10'000}, Case{256, 4, 1000, 2'000}, Case{64, 500, 64, 2'000}}) {
    const auto source = numbered(Numbers(static_cast<std::size_t>(shards), 1 << 20));
    // One in a hundred is long, in each shard another.
    const auto longer = [bytes = bytes](std::int64_t, const StreamSample& sample, StreamOutputs& out) {
      StreamSample& made = out.add();
      const StreamId& id = sample.id();
      const std::int64_t length = (id.input + 37 * id.shard.value) % 100 == 7 ? 10 * bytes : bytes / 2;
      std::ranges::fill(made.resize(0, length), std::byte{1});
    };
    const std::int64_t before = in_use();
    StreamLoader loader(
        shuffle_buffer(flat_map(source, longer, {.fields = {{.name = "x", .ragged = true}}}), buffer, 1),
        {.global_batch_size = batch, .workers = 1, .read_ahead_batches = 2, .read_ahead_bytes = 1 << 20});
    std::int64_t most = 0;
    for (int step = 0; step < 12'000 / batch + 8; ++step) {
      (void)loader.next();
      most = std::max(most, in_use() - before);
    }
    const std::int64_t buffers = shards * buffer * bytes;
    EXPECT_LT(most, 2 * (buffers + 4 * batch * bytes) + shards * 40'000 + (4 << 20))
        << batch << ", " << buffer << ", " << shards;
  }
}

}  // namespace rota::test::transforms_test
