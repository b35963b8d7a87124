#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <set>

#include "loader/counting_source.hpp"
#include "rota/loader.hpp"

namespace rota {
namespace {

using ::testing::HasSubstr;

TEST(Transform, ChangesTheSourcesFieldsInPlace) {
  const auto source = std::make_shared<CountingSource>(50);
  const Transform transform{
      .apply = [](const TransformContext& context, const SampleView& /*in*/, const SampleView& out) {
        EXPECT_EQ(out.as<std::int64_t>(0)[0], context.id.value);
        out.as<std::int64_t>(0)[0] += 1000;
      }};
  Loader loader(source, {.global_batch_size = 8, .workers = 2, .transform = transform});
  for (const Batch& batch : loader) {
    for (std::int64_t i = 0; i < batch.size(); ++i) {
      const auto x = batch.tensor(0).as<std::int64_t>().subspan(static_cast<std::size_t>(2 * i), 2);
      EXPECT_EQ(x[0], x[1] + 1000);
    }
  }
}

TEST(Transform, MakesFieldsOfItsOwnFromRaggedOnes) {
  const auto source = std::make_shared<CountingSource>(50);
  const Transform transform{
      .apply = [](const TransformContext& /*context*/, const SampleView& in,
                  const SampleView& out) { out.as<double>(0)[0] = static_cast<double>(in.bytes[1].size()); },
      .fields = {{.name = "length", .dtype = DType::float64, .shape = {}}}};
  for (const int workers : {0, 2}) {
    Loader loader(source, {.global_batch_size = 8, .workers = workers, .transform = transform});
    for (const Batch& batch : loader) {
      for (std::size_t i = 0; i < batch.ids().size(); ++i) {
        EXPECT_EQ(batch.tensor("length").as<double>()[i], static_cast<double>(batch.ids()[i].value % 7));
      }
    }
  }
}

/// Epoch and id of every sample, with the key it was given.
std::map<std::pair<std::int64_t, std::int64_t>, std::uint64_t> keys(int ranks, int workers,
                                                                    std::uint64_t seed) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::uint64_t> keys;
  std::mutex mutex;
  const Transform transform{
      .apply = [&](const TransformContext& context, const SampleView&, const SampleView&) {
        const std::lock_guard lock(mutex);
        keys[{context.epoch, context.id.value}] = context.key;
      }};
  for (int r = 0; r < ranks; ++r) {
    Loader loader(std::make_shared<CountingSource>(40),
                  {.global_batch_size = 7,
                   .seed = seed,
                   .tail = Tail::carry,
                   .epochs = 3,
                   .workers = workers,
                   .transform = transform},
                  {.rank = r, .size = ranks});
    for (const Batch& batch : loader) static_cast<void>(batch);
  }
  return keys;
}

TEST(Transform, IsGivenTheSameKeyForASampleAtAnyWorldAndAnotherInEveryEpoch) {
  const auto alone = keys(1, 0, 5);
  EXPECT_EQ(alone.size(), 120U);
  EXPECT_EQ(keys(3, 2, 5), alone);
  EXPECT_NE(keys(1, 0, 6), alone);
  std::set<std::uint64_t> distinct;
  for (const auto& [sample, key] : alone) distinct.insert(key);
  EXPECT_EQ(distinct.size(), 120U);
}

TEST(Transform, ThrowsInItsBatchsPlaceWithTheSamplesName) {
  const Transform transform{
      .apply = [](const TransformContext& context, const SampleView&, const SampleView&) {
        if (context.id.value == 13) throw std::runtime_error("unlucky");
      }};
  for (const int workers : {0, 2}) {
    Loader loader(std::make_shared<CountingSource>(50), {.global_batch_size = 5,
                                                         .shards = 1,
                                                         .shuffle = Shuffle::none,
                                                         .workers = workers,
                                                         .transform = transform});
    EXPECT_TRUE(loader.next());
    EXPECT_TRUE(loader.next());
    try {
      loader.next();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("transform sample 13 (place-13): unlucky"));
    }
  }
}

TEST(Transform, CannotMakeRaggedFieldsNorFieldsByNothing) {
  const auto source = std::make_shared<CountingSource>(5);
  const Field ragged{.name = "tokens", .dtype = DType::int64, .shape = {}, .ragged = true};
  const Field fixed{.name = "tokens", .dtype = DType::int64, .shape = {4}};
  const auto nothing = [](const TransformContext&, const SampleView&, const SampleView&) {};
  EXPECT_THROW(Loader(source, {.transform = {.apply = nothing, .fields = {ragged}}}), Error);
  EXPECT_THROW(Loader(source, {.transform = {.apply = {}, .fields = {fixed}}}), Error);
}

}  // namespace
}  // namespace rota
