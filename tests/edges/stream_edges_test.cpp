#include "edges/edge.hpp"
#include "source/told_source.hpp"
#include "stream/numbered_stream.hpp"
#include "test.hpp"

namespace rota::test::stream_edges_test {

using std::chrono::milliseconds;
using Lengths = std::vector<std::int64_t>;
using SourcePtr = std::shared_ptr<const rota::StreamSource>;

constexpr auto kInvalid = ErrorCode::invalid_argument;
constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

SourcePtr numbers(Lengths lengths = {7, 0, 5}) {
  return std::make_shared<NumberedStream>(std::move(lengths));
}

std::int64_t samples(StreamLoader& loader) {
  std::int64_t count = 0;
  while (const auto batch = loader.next()) count += batch->size();
  return count;
}

Edge option(std::string test, StreamLoaderOptions options, std::string says = {}, bool is_right = false) {
  const auto call = [options] {
    options.validate();
    StreamLoader loader(numbers(), options);
    EXPECT_EQ(samples(loader), 12 * options.epochs);
  };
  return {"Option" + std::move(test), call, is_right ? std::nullopt : std::optional(kInvalid),
          std::move(says)};
}
Edge fine(std::string test, const StreamLoaderOptions& options) {
  return option(std::move(test), options, {}, true);
}

std::vector<Edge> options() {
  return {
      fine("Default", {}),
      option("BatchOfNone", {.global_batch_size = 0}, "global_batch_size"),
      option("BatchNegative", {.global_batch_size = -1}, "global_batch_size"),
      fine("BatchOfOne", {.global_batch_size = 1}),
      fine("BatchBeyondTheDataset", {.global_batch_size = 1000}),
      option("BatchHuge", {.global_batch_size = kHuge}, "global_batch_size"),
      fine("NoEpochs", {.epochs = 0}),
      option("EpochsNegative", {.epochs = -1}, "epochs"),
      fine("NoWorkers", {.workers = 0}),
      fine("MoreWorkersThanShards", {.workers = 9}),
      option("WorkersNegative", {.workers = -1}, "workers"),
      option("WorkersHuge", {.workers = 1 << 30}, "workers"),
      option("NoReadAhead", {.read_ahead_batches = 0}, "read_ahead_batches"),
      option("ReadAheadHuge", {.read_ahead_batches = kHuge}, "read_ahead_batches"),
      fine("ReadAheadOfOneByte", {.read_ahead_bytes = 1}),
      fine("ReadAheadOfHugeBytes", {.read_ahead_bytes = kHuge}),
      fine("DeadlineNever", {.deadline = milliseconds::zero()}),
      fine("DeadlineHuge", {.deadline = milliseconds::max()}),
      option("DeadlineNegative", {.deadline = milliseconds(-1)}, "deadline"),
  };
}

Edge loads(std::string test, std::function<std::int64_t()> call, std::int64_t count) {
  return {std::move(test), [call = std::move(call), count] { EXPECT_EQ(call(), count); }};
}

std::int64_t samples_of(const SourcePtr& source) {
  StreamLoader loader(source, {});
  return samples(loader);
}
std::int64_t items_of(const Dispatch& dispatch) {
  StreamLoader loader(dispatch, {});
  return samples(loader);
}

bool keep_all(std::int64_t /*epoch*/, const StreamSample& /*sample*/) { return true; }
bool keep_none(std::int64_t /*epoch*/, const StreamSample& /*sample*/) { return false; }
void make_two(std::int64_t /*epoch*/, const StreamSample& sample, rota::StreamOutputs& outputs) {
  outputs.add().copy(sample);
  outputs.add().copy(sample);
}

std::vector<Edge> sources() {
  return {
      {"SourceNull", [] { StreamLoader(SourcePtr{nullptr}); }, kInvalid, "source"},
      {"SourceWithoutShards", [] { StreamLoader(numbers({})); }, ErrorCode::callback, "shards"},
      loads(
          "SourceOfEmptyShards",
          [] {
            return samples_of(numbers({0, 0}));
          },
          0),
      loads(
          "SourceTwiceAtOnce",
          [] {
            const SourcePtr source = numbers();
            return samples_of(source) + samples_of(source);
          },
          24),
      {"FilterNull", [] { rota::filter(nullptr, keep_all); }, kInvalid, "source"},
      {"FilterByNothing", [] { rota::filter(numbers(), nullptr); }, kInvalid, "function"},
      loads(
          "FilterThatKeepsNothing", [] { return samples_of(rota::filter(numbers(), keep_none)); }, 0),
      loads(
          "FilterOfAFilter",
          [] { return samples_of(rota::filter(rota::filter(numbers(), keep_all), keep_all)); }, 12),
      {"ExpandNull", [] { rota::flat_map(nullptr, make_two); }, kInvalid, "source"},
      {"ExpandByNothing", [] { rota::flat_map(numbers(), nullptr); }, kInvalid, "function"},
      {"ExpandToNone", [] { rota::flat_map(numbers(), make_two, {.most = 0}); }, kInvalid, "most"},
      {"ExpandToMoreThanAllowed", [] { samples_of(rota::flat_map(numbers(), make_two, {.most = 1})); },
       ErrorCode::callback, "no more than 1 may be"},
      loads(
          "ExpandToTwo", [] { return samples_of(rota::flat_map(numbers(), make_two)); }, 24),
      {"BufferNull", [] { rota::shuffle_buffer(nullptr, 5, 0); }, kInvalid, "source"},
      {"BufferOfNone", [] { rota::shuffle_buffer(numbers(), 0, 0); }, kInvalid, "size is 0"},
      {"BufferNegative", [] { rota::shuffle_buffer(numbers(), -5, 0); }, kInvalid, "size is -5"},
      loads(
          "BufferOfOne", [] { return samples_of(rota::shuffle_buffer(numbers(), 1, 0)); }, 12),
      loads(
          "BufferBeyondTheShard", [] { return samples_of(rota::shuffle_buffer(numbers(), 1000, 0)); }, 12),
      loads(
          "BufferHuge", [] { return samples_of(rota::shuffle_buffer(numbers(), kHuge, 0)); }, 12),
      {"StreamOfNull", [] { rota::as_stream(nullptr, 1); }, kInvalid, "source"},
      {"StreamOfNoShards", [] { rota::as_stream(counting(5), 0); }, kInvalid, "shards"},
      {"StreamOfHugeShards", [] { rota::as_stream(counting(5), kHuge); }, kInvalid, "shards"},
      loads(
          "StreamOfMoreShardsThanSamples", [] { return samples_of(rota::as_stream(counting(5), 9)); }, 5),
      {"DispatchWithoutSource", [] { StreamLoader(Dispatch{}); }, kInvalid, "source"},
      {"DispatchOfSeveralShards", [] { StreamLoader(Dispatch{.source = numbers()}); }, kInvalid, "shard"},
      {"DispatchToNoShards", [] { StreamLoader(Dispatch{.source = numbers({5}), .shards = 0}); }, kInvalid,
       "shards"},
      {"DispatchToHugeShards",
       [] { StreamLoader(Dispatch{.source = numbers({5}), .shards = std::int64_t{1} << 40}); }, kInvalid,
       "shards"},
      {"DispatchSplitInTurn",
       [] { StreamLoader(Dispatch{.source = numbers({5}), .rank_split = rota::Split::interleaved}); },
       kInvalid, "split"},
      {"DispatchSplitUnknown",
       [] { StreamLoader(Dispatch{.source = numbers({5}), .rank_split = static_cast<rota::Split>(9)}); },
       kInvalid, "split"},
      loads(
          "DispatchOfNothing", [] { return items_of({.source = numbers({0})}); }, 0),
      loads(
          "DispatchOfOne", [] { return items_of({.source = numbers({1})}); }, 1),
  };
}

std::vector<Edge> samples_and_ids() {
  static const std::vector<rota::Field> kFields = {{"x", rota::DType::int64, {2}},
                                                   {"text", rota::DType::uint8, {3}, true}};
  return {
      {"IdOfNothing", [] { rota::parse_stream_id(""); }, kInvalid, "id \"\""},
      {"IdOfTwoNumbers", [] { rota::parse_stream_id("1:2"); }, kInvalid, "id \"1:2\""},
      {"IdOfFourNumbers", [] { rota::parse_stream_id("1:2:3:4"); }, kInvalid, "1:2:3:4"},
      {"IdNegative", [] { rota::parse_stream_id("-1:0:0"); }, kInvalid, "-1:0:0"},
      {"IdBeyondAllNumbers", [] { rota::parse_stream_id("9223372036854775808:0:0"); }, kInvalid, "9223"},
      {"IdWithSpaces", [] { rota::parse_stream_id(" 1:2:3"); }, kInvalid, "id \" 1:2:3\""},
      {"IdLargest", [] { rota::parse_stream_id("9223372036854775807:0:0"); }},
      {"SampleOfNoFields", [] { EXPECT_EQ(StreamSample({}).size(), 0U); }},
      {"SampleRowsNegative", [] { StreamSample(kFields).resize(1, -1); }, ErrorCode::callback, "-1 rows"},
      {"SampleRowsHuge", [] { StreamSample(kFields).resize(1, kHuge); }, ErrorCode::callback,
       "9223372036854775807 rows"},
      {"SampleRowsNone", [] { EXPECT_TRUE(StreamSample(kFields).resize(1, 0).empty()); }},
      {"SampleRowsOfAFixedField", [] { StreamSample(kFields).resize(0, 2); }, ErrorCode::callback, "\"x\""},
      {"SampleBytesPastTheLast", [] { std::ignore = StreamSample(kFields).bytes(2); },
       ErrorCode::out_of_range, "field 2:"},
      {"SampleRowsPastTheLast", [] { std::ignore = StreamSample(kFields).rows(2); }, ErrorCode::out_of_range,
       "field 2:"},
      {"SampleResizePastTheLast", [] { StreamSample(kFields).resize(2, 1); }, ErrorCode::out_of_range,
       "field 2:"},
      {"SampleSetPastTheLast", [] { StreamSample(kFields).set(2, {}); }, ErrorCode::out_of_range, "field 2:"},
      {"SampleSetTooLittle", [] { StreamSample(kFields).set(0, {}); }, ErrorCode::callback, "\"x\""},
      {"SampleSetHalfARow",
       [] {
         const std::array<std::byte, 4> bytes{};
         StreamSample(kFields).set(1, bytes);
       },
       ErrorCode::callback, "text"},
      {"SampleCopiedFromOneOfOtherFields",
       [] {
         StreamSample sample(kFields);
         sample.copy(StreamSample(std::span(kFields).first(1)));
       },
       ErrorCode::out_of_range, "field 1:"},
  };
}

using OnLoader = std::function<void(StreamLoader&)>;
Edge on_loader(std::string test, OnLoader call, std::optional<ErrorCode> code = {}, std::string says = {}) {
  const auto make_and_call = [call = std::move(call)] {
    StreamLoader loader(numbers(), {.global_batch_size = 4});
    call(loader);
  };
  return {std::move(test), make_and_call, code, std::move(says)};
}

std::vector<Edge> calls() {
  return {
      on_loader("NextAfterTheEnd",
                [](auto& loader) {
                  EXPECT_EQ(samples(loader), 12);
                  EXPECT_FALSE(loader.next().has_value());
                }),
      on_loader(
          "OwnerOfAShardThatIsNotThere", [](auto& loader) { std::ignore = loader.owner({3}); },
          ErrorCode::out_of_range, "shard 3:"),
      on_loader(
          "OwnerNegative", [](auto& loader) { std::ignore = loader.owner({-1}); }, ErrorCode::out_of_range,
          "shard -1:"),
      on_loader("OwnerAfterTheEnd",
                [](auto& loader) {
                  samples(loader);
                  EXPECT_EQ(loader.owner({0}), 0);
                }),
      {"OwnerWhereItemsAreDispatchedBySample",
       [] {
         const StreamLoader loader(Dispatch{.source = numbers({5})});
         std::ignore = loader.owner({0});
       },
       ErrorCode::unsupported, "dispatched by sample"},
      on_loader("BatchesThatOutliveTheLoader",
                [](auto& loader) {
                  const auto batch = loader.next();
                  loader = StreamLoader(numbers({1}));
                  EXPECT_EQ(batch->ids().size(), 4U);
                }),
      on_loader(
          "TensorOfNoName",
          [](auto& loader) {
            const auto batch = loader.next();
            std::ignore = batch->tensor("z");
          },
          ErrorCode::not_found, "text"),
      on_loader(
          "TensorPastTheLast",
          [](auto& loader) {
            const auto batch = loader.next();
            std::ignore = batch->tensor(2);
          },
          ErrorCode::out_of_range, "field 2:"),
  };
}

ROTA_EDGES(StreamOptions, options);
ROTA_EDGES(StreamSource, sources);
ROTA_EDGES(StreamSample, samples_and_ids);
ROTA_EDGES(StreamLoader, calls);

}  // namespace rota::test::stream_edges_test
