#include "source/reading.hpp"

namespace rota::test::values_test {

TEST(Values, NamesReadBack) {
  for (const auto shuffle : {Shuffle::none, Shuffle::within, Shuffle::global, Shuffle::block}) {
    EXPECT_EQ(parse_shuffle(to_string(shuffle)), shuffle);
  }
  for (int d = 0; d <= static_cast<int>(DType::float64); ++d) {
    EXPECT_EQ(parse_dtype(to_string(static_cast<DType>(d))), static_cast<DType>(d));
  }
  EXPECT_EQ(kDTypeOf<const float>, DType::float32);
  EXPECT_EQ(kDTypeOf<long>, DType::int64);
}

TEST(Values, SharesAreEqualAndCoverEverything) {
  for (std::int64_t total = 0; total < 40; ++total) {
    for (std::int64_t parts = 1; parts < 12; ++parts) {
      for (std::int64_t part = 0; part <= parts; ++part)
        ASSERT_EQ(share(total, part, parts), total * part / parts);
    }
  }
  EXPECT_EQ(share(std::int64_t{1} << 62, 99'999, 100'000), 4611639901567203630);
}

class WorldEnvironment : public ::testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void set(const char* name, const char* value) { setenv(name, value, 1); }
  static void clear() {
    for (const char* name : {"RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK",
                             "PMI_SIZE", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS"}) {
      unsetenv(name);
    }
  }
};

TEST_F(WorldEnvironment, IsAWorldOfOneWithoutALauncher) { EXPECT_EQ(world_from_environment(), World{}); }

TEST_F(WorldEnvironment, TakesThePlaceThatTheLauncherGave) {
  set("SLURM_PROCID", "3");
  set("SLURM_STEP_NUM_TASKS", "8");
  EXPECT_EQ(world_from_environment(), (World{.rank = 3, .size = 8}));
  set("OMPI_COMM_WORLD_RANK", "1");
  set("OMPI_COMM_WORLD_SIZE", "2");
  EXPECT_EQ(world_from_environment(), (World{.rank = 1, .size = 2}));
  set("RANK", "5");
  set("WORLD_SIZE", "6");
  EXPECT_EQ(world_from_environment(), (World{.rank = 5, .size = 6}));
}

TEST_F(WorldEnvironment, IsAWorldOfOneInASlurmJobWithoutSrun) {
  set("SLURM_NTASKS", "4");  // of an allocation
  EXPECT_EQ(world_from_environment(), World{});
  set("SLURM_PROCID", "0");  // of a job's script
  EXPECT_EQ(world_from_environment(), World{});
}

TEST_F(WorldEnvironment, RefusesHalfAPlaceAndNoPlace) {
  const auto refuses = [](const char* why) {
    EXPECT_ERROR(world_from_environment(), invalid_argument, {why});
  };
  set("RANK", "1");
  refuses("RANK is set and WORLD_SIZE is not");
  set("WORLD_SIZE", "two");
  refuses("WORLD_SIZE=\"two\"");
  set("WORLD_SIZE", "1");
  refuses("rank 1 of 1");
}

}  // namespace rota::test::values_test
