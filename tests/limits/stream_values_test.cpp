#include "limits/refusals.hpp"
#include "limits/told_source.hpp"
#include "test.hpp"

namespace rota::test::stream_values_test {

using test::expect_refused;
using test::kLeast;
using test::kMost;
using test::told;
using test::told_stream;

using Shared = std::shared_ptr<const StreamSource>;

bool keep_all(std::int64_t /*epoch*/, const StreamSample& /*sample*/) { return true; }
void twice(std::int64_t /*epoch*/, const StreamSample& sample, StreamOutputs& out) {
  out.add().copy(sample);
  out.add().copy(sample);
}

/// All that takes a user's source.
struct Taker {
  std::string name;
  std::function<void(const Shared&)> take;
};

std::vector<Taker> takers() {
  return {
      {"StreamLoader", [](const Shared& source) { StreamLoader(source, {.workers = 0}); }},
      {"Dispatch", [](const Shared& source) { StreamLoader(Dispatch{.source = source}, {.workers = 0}); }},
      {"filter", [](const Shared& source) { filter(source, keep_all); }},
      {"flat_map", [](const Shared& source) { flat_map(source, twice); }},
      {"shuffle_buffer", [](const Shared& source) { shuffle_buffer(source, 4, 1); }}};
}

TEST(StreamValues, ShardsAndCursorsThatCannotBeAreRefusedByAllThatTakeASource) {
  for (const Taker& taker : takers()) {
    for (const std::int64_t number :
         {kLeast, std::int64_t{-1}, std::int64_t{0}, std::int64_t{1} << 40, kMost}) {
      expect_refused({
          {taker.name + ", shards",
           [&] { taker.take(told_stream(number)); },
           ErrorCode::callback,
           {std::to_string(number) + " shards", "1 to 2^24"}},
          {taker.name + ", cursor_numbers",
           [&] { taker.take(told_stream(1, test::kOneNumber, number)); },
           ErrorCode::callback,
           {"cursors of " + std::to_string(number) + " numbers", "1 to 65536"}},
      });
    }
  }
}

TEST(StreamValues, FieldsThatCannotBeAreRefusedByAllThatTakeASource) {
  for (const Taker& taker : takers()) {
    for (const auto& [fields, why] : test::impossible_fields()) {
      expect_refused({.what = taker.name + ": " + why,
                      .call = [&, &fields = fields] { taker.take(told_stream(1, fields)); },
                      .code = ErrorCode::callback,
                      .words = {"the source has", why}});
    }
  }
}

TEST(StreamValues, OfTransformsAreRefusedByName) {
  for (const auto& [fields, why] : test::impossible_fields()) {
    expect_refused({
        {.what = "flat_map: " + why,
         .call = [&, &fields = fields] { flat_map(told_stream(1), twice, {.fields = fields}); },
         .words = {"flat_map a stream", why}},
        {.what = "StreamSample: " + why,
         .call = [&, &fields = fields] { StreamSample sample(fields); },
         .words = {why}},
    });
  }
  for (const std::int64_t number : {kLeast, std::int64_t{-1}, std::int64_t{0}}) {
    const std::string text = std::to_string(number);
    expect_refused({
        {.what = "most",
         .call = [&] { flat_map(told_stream(1), twice, {.most = number}); },
         .words = {"most is " + text}},
        {.what = "size",
         .call = [&] { shuffle_buffer(told_stream(1), number, 0); },
         .words = {"size is " + text}},
        {.what = "shards",
         .call = [&] { as_stream(told(10), number); },
         .words = {"shards is " + text, "1 to 2^24"}},
    });
  }
  expect_refused(
      {.what = "too many shards", .call = [&] { as_stream(told(10), kMost); }, .words = {"1 to 2^24"}});
}

std::int64_t count(const Shared& source) {
  StreamLoader loader(source, {.workers = 0});
  std::int64_t samples = 0;
  while (const auto batch = loader.next()) samples += batch->size();
  return samples;
}

TEST(StreamValues, OfTransformsAtTheirLargestAreTaken) {
  EXPECT_EQ(count(shuffle_buffer(told_stream(2), kMost, 1)), 6);
  EXPECT_EQ(count(flat_map(told_stream(2), twice, {.most = kMost})), 12);
}

TEST(StreamValues, NumbersOfOutputsDoNotOverflow) {
  for (const std::int64_t output : {kLeast, std::int64_t{-1}, kMost}) {
    const auto source = told_stream(1);
    source->first_output = output;
    expect_refused({.what = std::to_string(output),
                    .call = [&] { count(flat_map(source, twice)); },
                    .code = ErrorCode::callback,
                    .words = {"flat_map 0:0:" + std::to_string(output)}});
  }
}

TEST(StreamValues, WhatIsLeftOfShardsIsANumberWhateverTheySay) {
  for (const std::int64_t left : {kLeast, std::int64_t{-1}, std::int64_t{0}, kMost}) {
    const auto source = told_stream(5);
    source->left = left;
    EXPECT_EQ(count(source), 15);
    EXPECT_EQ(count(shuffle_buffer(source, 2, 1)), 15);
  }
}

TEST(StreamValues, FieldsThatChangeAreAskedOnce) {
  const auto changing = [] {
    auto source = told_stream(2);
    source->later_fields = {{.name = "x", .dtype = DType::int64, .shape = {1000}}};
    return source;
  };
  EXPECT_EQ(count(changing()), 6);
  EXPECT_EQ(count(filter(changing(), keep_all)), 6);
  EXPECT_EQ(count(shuffle_buffer(changing(), 3, 1)), 6);
  EXPECT_EQ(count(flat_map(changing(), twice)), 12);
  auto source = std::make_shared<test::ToldStream>(1);
  source->later_fields = {{.name = "x", .dtype = DType::int64, .shape = {1000}}};
  StreamLoader loader(Dispatch{.source = source}, {.workers = 0});
  EXPECT_EQ((*loader.next()).size(), 3);
}

TEST(StreamValues, NoStreamIsRefusedUnderTransformsToo) {
  const auto source = told_stream(1);
  source->gives_none = true;
  for (const Shared& one :
       {Shared(source), filter(source, keep_all), flat_map(source, twice), shuffle_buffer(source, 2, 1)}) {
    expect_refused({.what = "open",
                    .call = [&] { count(one); },
                    .code = ErrorCode::callback,
                    .words = {"null pointer"}});
  }
}

}  // namespace rota::test::stream_values_test
