#include "loader/course.hpp"

namespace rota::test::collate_test {

std::int64_t rows_of(const Tensor& tensor, std::size_t i) {
  return tensor.offsets[i + 1] - tensor.offsets[i];
}

std::int64_t longest(const Tensor& tensor) {
  std::int64_t most = 0;
  for (std::size_t i = 0; i + 1 < tensor.offsets.size(); ++i) most = std::max(most, rows_of(tensor, i));
  return most;
}

/// Texts padded by zeros to the longest of the batch, their lengths, and all texts as they are.
Collate pad() {
  return {.apply =
              [](const Batch& in, BatchOutput& out) {
                const Tensor text = in.tensor("text");
                const auto width = static_cast<std::size_t>(longest(text));
                Numbers rows;
                const auto padded = out.resize<std::uint8_t>(0, static_cast<std::int64_t>(width));
                std::ranges::fill(padded, std::uint8_t{0});
                for (std::size_t i = 0; i < in.ids().size(); ++i) {
                  rows.push_back(rows_of(text, i));
                  std::ranges::copy(in.bytes(1, static_cast<std::int64_t>(i)),
                                    std::as_writable_bytes(padded.subspan(i * width)).begin());
                  out.as<std::int32_t>(1)[i] = static_cast<std::int32_t>(rows.back());
                }
                std::ranges::copy(text.bytes, out.resize(2, rows).begin());
              },
          .fields = {{.name = "padded", .dtype = DType::uint8, .ragged = true},
                     {.name = "length", .dtype = DType::int32},
                     {.name = "text", .dtype = DType::uint8, .ragged = true}}};
}

void expect_padded(const Batch& batch) {
  const Tensor padded = batch.tensor("padded");
  const auto lengths = batch.tensor("length").as<std::int32_t>();
  const std::int32_t width = lengths.empty() ? 0 : std::ranges::max(lengths);
  ASSERT_EQ(std::ssize(padded.bytes), width * batch.size());
  for (std::size_t i = 0; i < batch.ids().size(); ++i) {
    const std::int64_t id = batch.ids()[i].value;
    EXPECT_EQ(lengths[i], id % 7);
    EXPECT_EQ(rows_of(padded, i), width);
    EXPECT_EQ(rows_of(batch.tensor("text"), i), id % 7);
    std::vector<std::byte> expected(static_cast<std::size_t>(width), std::byte{0});
    std::fill_n(expected.begin(), id % 7, static_cast<std::byte>(id));
    EXPECT_THAT(batch.bytes(0, static_cast<std::int64_t>(i)), ElementsAreArray(expected));
    EXPECT_THAT(batch.bytes(2, static_cast<std::int64_t>(i)), Each(static_cast<std::byte>(id)));
  }
}

class Collated : public TestWithParam<int> {
 protected:
  LoaderOptions options(Collate collate) const {
    return {.global_batch_size = 13, .epochs = 2, .workers = GetParam(), .collate = std::move(collate)};
  }
  std::shared_ptr<const ToldSource> source_ = counting(100);
};

TEST_P(Collated, BatchesHaveTheirSamplesAndNewFields) {
  for (const int ranks : {1, 4}) {
    std::int64_t samples = 0;
    for (int r = 0; r < ranks; ++r) {
      const World world{.rank = r, .size = ranks};
      Loader loader(source_, options(pad()), world);
      Loader plain(source_, options({}), world);
      for (const Batch& batch : loader) {
        expect_padded(batch);
        samples += batch.size();
        const auto same = plain.next();
        EXPECT_THAT(batch.ids(), ElementsAreArray(same->ids()));
        EXPECT_THAT(batch.kinds(), ElementsAreArray(same->kinds()));
        EXPECT_EQ(batch.start(), same->start());
      }
    }
    EXPECT_EQ(samples, 200);
  }
}

TEST_P(Collated, ComesAfterTheTransform) {
  const Field ids{.name = "ids", .dtype = DType::int64, .ragged = true};
  LoaderOptions how = options({.apply =
                                   [](const Batch& in, BatchOutput& out) {
                                     Numbers rows;
                                     for (const SampleId id : in.ids()) rows.push_back(id.value % 3);
                                     std::ranges::copy(in.tensor("ids").bytes, out.resize(0, rows).begin());
                                   },
                               .fields = {ids}});
  how.transform = {.apply =
                       [](const TransformContext& context, const SampleView&, SampleOutput& out) {
                         const std::int64_t id = context.id.value;
                         std::ranges::fill(out.resize<std::int64_t>(0, id % 3), id);
                       },
                   .fields = {ids}};
  Loader loader(source_, how);
  for (const Batch& batch : loader) {
    Numbers expected;
    for (const std::int64_t id : ids_of(batch))
      expected.insert(expected.end(), static_cast<std::size_t>(id % 3), id);
    EXPECT_THAT(batch.tensor("ids").as<std::int64_t>(), ElementsAreArray(expected));
  }
}

TEST_P(Collated, WithAnErrorItIsTriedAgainAtTheSameStep) {
  std::atomic<bool> is_bad = true;
  LoaderOptions how = options(pad());
  how.collate.apply = [&, whole = how.collate.apply](const Batch& in, BatchOutput& out) {
    if (in.start().step == 3 && is_bad) throw std::runtime_error("no room");
    whole(in, out);
  };
  Loader loader(source_, how);
  for (int step = 0; step < 3; ++step) (void)loader.next();
  for (int tries = 0; tries < 2; ++tries) {
    EXPECT_ERROR(loader.next(), callback, {"collate the batch of step 3: no room"});
  }
  is_bad = false;
  const auto batch = loader.next();
  EXPECT_EQ(batch->start().step, 3);
  expect_padded(*batch);
}

TEST_P(Collated, BatchesHaveSkippedSlotsToo) {
  LoaderOptions how = options(pad());
  how.bad_samples.policy = BadSamples::Policy::skip;
  how.transform.apply = [](const TransformContext& context, const SampleView&, SampleOutput&) {
    if (context.id.value == 5) throw std::runtime_error("unlucky");
  };
  Loader loader(source_, how);
  std::int64_t skipped = 0;
  for (const Batch& batch : loader) skipped += batch.size() - batch.real();
  EXPECT_EQ(skipped, 2);
  EXPECT_EQ(loader.skipped().count, 2);
}

TEST_P(Collated, IsNotCalledForABatchWithoutSamples) {
  LoaderOptions how = options({.apply = [](const Batch& in, BatchOutput&) { EXPECT_GT(in.size(), 0); },
                               .fields = {{.name = "none", .dtype = DType::int64, .ragged = true}}});
  how.global_batch_size = 2;
  Loader loader(source_, how, {.rank = 2, .size = 4});
  for (const Batch& batch : loader) {
    EXPECT_THAT(batch.tensor(0).bytes, IsEmpty());
    EXPECT_EQ(std::ssize(batch.tensor(0).offsets), batch.size() + 1);
  }
}

TEST_P(Collated, RefusesRowsThatCannotBe) {
  const auto thrown = [&](const std::function<void(BatchOutput&)>& work) {
    LoaderOptions how = options(pad());
    how.collate.apply = [&](const Batch&, BatchOutput& out) { work(out); };
    return error_of([&] { (void)Loader(source_, how).next(); });
  };
  const auto refused = [](const char* why, ErrorCode code = callback) { return is_error(code, {why}); };
  EXPECT_THAT(thrown([](BatchOutput& out) { out.resize(0, -1); }), refused("-1 rows"));
  EXPECT_THAT(thrown([](BatchOutput& out) { out.resize(1, 1); }),
              refused("\"length\": it is of fixed shape"));
  EXPECT_THAT(thrown([](BatchOutput& out) { out.resize(3, 1); }), refused("there are 3", out_of_range));
  EXPECT_THAT(thrown([](BatchOutput& out) { out.resize(2, Numbers(3)); }),
              refused("3 row counts were given for 13 samples"));
  EXPECT_THAT(thrown([](BatchOutput& out) { (void)out.as<float>(1); }), refused("int32", mismatch));
  EXPECT_FALSE(thrown([](BatchOutput& out) { out.resize(0, 3); }));
}

// Once it has three bytes for each sample, in all batches but the first.
TEST_P(Collated, KeepsAFieldAsItWasWhereOtherRowsAreRefused) {
  constexpr std::int64_t kMost = 1 << 20;
  const auto resize_all_ways = [](const Batch& in, BatchOutput& out) {
    const bool is_first = in.start().step == 0;
    if (!is_first) std::ranges::fill(out.resize(0, 3), std::byte{3});
    const auto expect_kept = [&](std::span<const std::byte> bytes) {
      EXPECT_EQ(std::ssize(bytes), is_first ? 0 : 3 * in.size());
      EXPECT_THAT(bytes, Each(std::byte{3}));
    };
    Numbers rows(in.ids().size(), 1000);
    rows.back() = -1;
    EXPECT_THROW(out.resize(0, rows), Error);
    expect_kept(out.bytes(0));
    EXPECT_THROW(out.resize(0, kMost), Error);  // the allocator has not so much
    expect_kept(out.bytes(0));
    EXPECT_THROW(out.resize(0, std::int64_t{1} << 49), Error);
    expect_kept(out.bytes(0));
  };
  LoaderOptions how = options(
      {.apply = resize_all_ways, .fields = {{.name = "kept", .dtype = DType::uint8, .ragged = true}}});
  how.allocator = {
      .allocate =
          [](std::size_t bytes) {
            if (bytes > kMost) throw std::bad_alloc();
            return ::operator new (bytes, std::align_val_t{64});
          },
      .release = [](void* memory, std::size_t) { ::operator delete (memory, std::align_val_t{64}); }};
  Loader loader(source_, how);
  for (const Batch& batch : loader) {
    const Tensor kept = batch.tensor(0);
    const std::int64_t rows = batch.start().step == 0 ? 0 : 3;
    for (std::size_t i = 0; i < batch.ids().size(); ++i) ASSERT_EQ(rows_of(kept, i), rows);
    EXPECT_EQ(std::ssize(kept.bytes), rows * batch.size());
    EXPECT_THAT(kept.bytes, Each(std::byte{3}));
  }
}

INSTANTIATE_TEST_SUITE_P(Workers, Collated, Values(0, 1, 3));

}  // namespace rota::test::collate_test
