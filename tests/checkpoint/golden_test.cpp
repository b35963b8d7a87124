// A file of each released format version loads for ever.

#include "checkpoint_fixture.hpp"

namespace rota::test::golden_test {

// `count` elements that begin at `first` and go up by `step`.
template <typename T>
std::vector<T> ramp(std::size_t count, T first, T step) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(first + static_cast<T>(i) * step);
  return values;
}

template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

// Saved as step 1234 by two ranks of the first version of the code, each with half of the rows (rank 0: 2 of
// 5), "model/scattered" in round-robin ranges.
class GoldenV1 : public Test {
 protected:
  Checkpoint checkpoint_ = open_checkpoint(ROTA_TESTS "/checkpoint/golden/checkpoint-v1.h5");
};

TEST_F(GoldenV1, SaysWhatItIs) {
  const CheckpointInfo& info = checkpoint_.info();
  EXPECT_EQ(info.serial, 0);
  EXPECT_EQ(info.parent, -1);
  EXPECT_EQ(info.step, 1234);
  EXPECT_EQ(info.format_version, 1);
  EXPECT_EQ(info.world_size, 2);
  EXPECT_THAT(info.run_id, SizeIs(32));
  EXPECT_EQ(info.bytes, static_cast<std::int64_t>(fs::file_size(info.path)));
}

TEST_F(GoldenV1, HasTypedTensors) {
  ASSERT_THAT(checkpoint_.tensors(), SizeIs(14));
  EXPECT_THAT(checkpoint_.tensor("loader/main/cursors").shape, ElementsAre(5, 2));
  EXPECT_EQ(checkpoint_.read<std::int64_t>("loader/main/cursors"), ramp<std::int64_t>(10, -3, 7));
  EXPECT_THAT(checkpoint_.tensor("model/layer0.weight").shape, ElementsAre(5, 2, 3));
  EXPECT_EQ(checkpoint_.read<float>("model/layer0.weight"), ramp<float>(30, -1.5F, 0.25F));
  EXPECT_EQ(checkpoint_.read<double>("model/float64"), ramp<double>(5, 1e300, 1e299));
  EXPECT_EQ(checkpoint_.read<std::int8_t>("model/int8"), ramp<std::int8_t>(5, -128, 50));
  EXPECT_EQ(checkpoint_.read<std::int16_t>("model/int16"), ramp<std::int16_t>(5, -32768, 9));
  EXPECT_EQ(checkpoint_.read<std::int32_t>("model/int32"), ramp<std::int32_t>(5, -5, 1 << 20));
  EXPECT_EQ(checkpoint_.read<std::uint8_t>("model/uint8"), ramp<std::uint8_t>(5, 200, 11));
  EXPECT_EQ(checkpoint_.read<std::uint16_t>("model/uint16"), ramp<std::uint16_t>(5, 65'000, 99));
  EXPECT_EQ(checkpoint_.read<std::uint64_t>("model/uint64"),
            ramp<std::uint64_t>(5, std::uint64_t{1} << 63, 3));
  EXPECT_EQ(checkpoint_.read<std::uint32_t>("model/scattered"), ramp<std::uint32_t>(5, 4'000'000'000, 1));
}

TEST_F(GoldenV1, HasTensorsOfTypesThatCppLacks) {
  const auto expect = [&](const char* name, DType dtype, const Bytes& bytes) {
    EXPECT_EQ(checkpoint_.tensor(name).dtype, dtype);
    EXPECT_EQ(read_rows(checkpoint_, name, {0, 5}, size_of(dtype)), bytes);
  };
  expect("model/float16", DType::float16, bytes_of(ramp<std::uint16_t>(5, 0x3C00, 0x100)));
  expect("model/bfloat16", DType::bfloat16, bytes_of(ramp<std::uint16_t>(5, 0x3F80, 0x40)));
  expect("model/flags", DType::boolean, bytes_of(std::vector<std::uint8_t>{0, 1, 1, 0, 1}));
  EXPECT_THAT(checkpoint_.tensor("model/none").shape, ElementsAre(0, 4));
}

TEST_F(GoldenV1, HasBlobsOfTheJobAndOfEachRank) {
  ASSERT_THAT(checkpoint_.blobs(), SizeIs(5));
  EXPECT_EQ(checkpoint_.blob("loader/main/state"), "seed 7, epoch 3");
  EXPECT_EQ(checkpoint_.blob("compressed"), std::string(20'000, 'z'));
  EXPECT_EQ(checkpoint_.blob("empty"), "");
  for (const int rank : {0, 1}) {
    EXPECT_THAT(checkpoint_.rank_blob("rng", {.rank = rank, .size = 2}),
                Optional("rng of rank " + std::to_string(rank)));
  }
}

}  // namespace rota::test::golden_test
