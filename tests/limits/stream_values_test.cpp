#include "limits/refusals.hpp"
#include "limits/told_stream.hpp"

namespace rota::test::stream_values_test {

using Shared = std::shared_ptr<const StreamSource>;

bool keep_all(std::int64_t /*epoch*/, const StreamSample& /*sample*/) { return true; }
bool keep_none(std::int64_t /*epoch*/, const StreamSample& /*sample*/) { return false; }
void twice(std::int64_t /*epoch*/, const StreamSample& sample, StreamOutputs& out) {
  out.add().copy(sample);
  out.add().copy(sample);
}

std::int64_t count_of(const auto& source) {
  StreamLoader loader(source, {.workers = 0});
  return samples_left(loader);
}

TEST(StreamValues, ThatCannotBeAreRefusedByAllThatTakesASource) {
  const std::map<std::string, std::function<void(const Shared&)>> takers{
      {"StreamLoader", [](const Shared& source) { StreamLoader(source, {.workers = 0}); }},
      {"Dispatch", [](const Shared& source) { StreamLoader(Dispatch{.source = source}, {.workers = 0}); }},
      {"filter", [](const Shared& source) { filter(source, keep_all); }},
      {"flat_map", [](const Shared& source) { flat_map(source, twice); }},
      {"shuffle_buffer", [](const Shared& source) { shuffle_buffer(source, 4, 1); }}};
  for (const auto& [name, taker] : takers) {
    const auto& take = taker;  // clang 14 captures no binding
    SCOPED_TRACE(name);
    refused({"source"}, [&] { take(nullptr); });
    for (const std::int64_t number :
         {kLeast, std::int64_t{-1}, std::int64_t{0}, std::int64_t{1} << 40, kMost}) {
      const std::string text = std::to_string(number);
      refused(kCallback, {text + " shards", "1 to 2^24"}, [&] { take(told_stream(number)); });
      refused(kCallback, {"cursors of " + text + " numbers", "1 to 65536"},
              [&] { take(told_stream(1, kOneNumber, number)); });
    }
    for (const auto& wrong : impossible_fields()) {
      refused(kCallback, {"the source has", wrong.why}, [&] { take(told_stream(1, wrong.fields)); });
    }
  }
}

TEST(StreamValues, OfTransformsAreRefusedByName) {
  for (const auto& wrong : impossible_fields()) {
    refused({"flat_map a stream", wrong.why},
            [&] { flat_map(told_stream(1), twice, {.fields = wrong.fields}); });
    refused({wrong.why}, [&] { StreamSample sample(wrong.fields); });
  }
  for (const std::int64_t number : {kLeast, std::int64_t{-1}, std::int64_t{0}}) {
    const std::string text = std::to_string(number);
    refused({"most is " + text}, [&] { flat_map(told_stream(1), twice, {.most = number}); });
    refused({"size is " + text}, [&] { shuffle_buffer(told_stream(1), number, 0); });
    refused({"shards is " + text, "1 to 2^24"}, [&] { as_stream(told(10), number); });
  }
  refused({"1 to 2^24"}, [] { as_stream(told(10), kMost); });
  refused({"source"}, [] { as_stream(nullptr, 1); });
  refused({"function"}, [] { filter(told_stream(1), nullptr); });
  refused({"function"}, [] { flat_map(told_stream(1), nullptr); });
  refused(kCallback, {"no more than 1 may be"},
          [] { count_of(flat_map(told_stream(1), twice, {.most = 1})); });
  refused({"shard"}, [] { StreamLoader(Dispatch{.source = told_stream(3)}); });
}

TEST(StreamValues, OfTransformsAreTakenToTheirRim) {
  EXPECT_EQ(count_of(filter(told_stream(2), keep_none)), 0);
  EXPECT_EQ(count_of(filter(filter(told_stream(2), keep_all), keep_all)), 6);
  EXPECT_EQ(count_of(flat_map(told_stream(2), twice)), 12);
  EXPECT_EQ(count_of(flat_map(told_stream(2), twice, {.most = kMost})), 12);
  for (const std::int64_t size : {std::int64_t{1}, std::int64_t{1000}, kMost}) {
    EXPECT_EQ(count_of(shuffle_buffer(told_stream(2), size, 1)), 6) << size;
  }
  EXPECT_EQ(count_of(as_stream(told(5), 9)), 5);
}

TEST(StreamValues, AreReadWhereShardsAreEmptyAndWhereASourceIsReadTwice) {
  const auto numbers = [](Numbers lengths) { return std::make_shared<NumberedStream>(std::move(lengths)); };
  EXPECT_EQ(count_of(numbers({0, 0})), 0);
  EXPECT_EQ(count_of(shuffle_buffer(numbers({7, 0, 5}), 2, 1)), 12);
  EXPECT_EQ(count_of(Dispatch{.source = numbers({0})}), 0);
  EXPECT_EQ(count_of(Dispatch{.source = numbers({1})}), 1);
  const Shared source = numbers({7, 0, 5});
  StreamLoader one(source, {.global_batch_size = 4});
  (void)one.next();
  EXPECT_EQ(count_of(source), 12);
  EXPECT_EQ(samples_left(one), 8);
}

TEST(StreamValues, NumbersOfOutputsDoNotOverflow) {
  for (const std::int64_t output : {kLeast, std::int64_t{-1}, kMost}) {
    const auto source = told_stream(1);
    source->first_output = output;
    refused(kCallback, {"flat_map 0:0:" + std::to_string(output)},
            [&] { count_of(flat_map(source, twice)); });
  }
}

TEST(StreamValues, WhatIsLeftOfShardsIsANumberWhateverTheySay) {
  for (const std::int64_t left : {kLeast, std::int64_t{-1}, std::int64_t{0}, kMost}) {
    const auto source = told_stream(5);
    source->left = left;
    EXPECT_EQ(count_of(source), 15);
    EXPECT_EQ(count_of(shuffle_buffer(source, 2, 1)), 15);
  }
}

TEST(StreamValues, FieldsThatChangeAreAskedOnce) {
  const auto changing = [](std::int64_t shards) {
    auto source = told_stream(shards);
    source->later_fields = {{.name = "x", .dtype = DType::int64, .shape = {1000}}};
    return source;
  };
  EXPECT_EQ(count_of(changing(2)), 6);
  EXPECT_EQ(count_of(filter(changing(2), keep_all)), 6);
  EXPECT_EQ(count_of(shuffle_buffer(changing(2), 3, 1)), 6);
  EXPECT_EQ(count_of(flat_map(changing(2), twice)), 12);
  EXPECT_EQ(count_of(Dispatch{.source = changing(1)}), 3);
}

TEST(StreamValues, NoStreamIsRefusedUnderTransformsToo) {
  const auto source = told_stream(1);
  source->gives_none = true;
  for (const Shared& one :
       {Shared(source), filter(source, keep_all), flat_map(source, twice), shuffle_buffer(source, 2, 1)}) {
    refused(kCallback, {"null pointer"}, [&] { count_of(one); });
  }
}

TEST(StreamValues, OfIdsAreRefusedWhereTheyAreNotThreeNumbers) {
  for (const std::string text : {"", "1:2", "1:2:3:4", "-1:0:0", "9223372036854775808:0:0", " 1:2:3"}) {
    refused({"id \"" + text + "\""}, [&] { parse_stream_id(text); });
  }
  EXPECT_EQ(parse_stream_id("9223372036854775807:0:0").shard.value, kMost);
}

TEST(StreamValues, OfSamplesAreRefusedByTheNameOfTheField) {
  const Fields fields{{"x", DType::int64, {2}}, {"text", DType::uint8, {3}, true}};
  StreamSample sample(fields);
  refused(kCallback, {"-1 rows"}, [&] { sample.resize(1, -1); });
  refused(kCallback, {"9223372036854775807 rows"}, [&] { sample.resize(1, kMost); });
  refused(kCallback, {"\"x\""}, [&] { sample.resize(0, 2); });
  refused(kRange, {"field 2:"}, [&] { sample.bytes(2); });
  refused(kRange, {"field 2:"}, [&] { sample.rows(2); });
  refused(kRange, {"field 2:"}, [&] { sample.resize(2, 1); });
  refused(kRange, {"field 2:"}, [&] { sample.set(2, {}); });
  refused(kCallback, {"\"x\""}, [&] { sample.set(0, {}); });
  refused(kCallback, {"text"}, [&] { sample.set(1, std::array<std::byte, 4>{}); });
  refused(kRange, {"field 1:"}, [&] { sample.copy(StreamSample(std::span(fields).first(1))); });
  EXPECT_TRUE(sample.resize(1, 0).empty());
  EXPECT_EQ(StreamSample({}).size(), 0U);
}

StreamLoader make_loader() { return StreamLoader(told_stream(4), {.global_batch_size = 4}); }

TEST(StreamValues, ThatALoaderIsAskedForAreRefusedByName) {
  StreamLoader loader = make_loader();
  const auto batch = loader.next();
  refused(kMissing, {"it has \"x\""}, [&] { batch->tensor("z"); });
  refused(kRange, {"field 1:"}, [&] { batch->tensor(1); });
}

}  // namespace rota::test::stream_values_test
