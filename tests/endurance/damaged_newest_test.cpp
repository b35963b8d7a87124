// Every combination of damaged ones among four checkpoints.

#include "checkpoint/checkpoint_fixture.hpp"
#include "saved_state.hpp"
#include "test.hpp"

namespace rota::test::damaged_newest_test {

using rota::CheckpointDirectory;
using rota::ErrorCode;
using rota::test::IsError;
using rota::test::thrown_error;

constexpr int kCount = 4;
constexpr std::int64_t kBytes = 4000;

void flip_a_byte(const fs::path& file) {
  std::string bytes = rota::test::read_file(file);
  bytes[bytes.size() / 2] ^= 4;
  rota::test::write_file(file, bytes);
}
void cut(const fs::path& file) { fs::resize_file(file, fs::file_size(file) * 2 / 3); }
void empty(const fs::path& file) { fs::resize_file(file, 0); }

struct Damage {
  const char* name;
  void (*harm)(const fs::path&);
  friend void PrintTo(const Damage& damage, std::ostream* out) { *out << damage.name; }
};

// The step is not the serial.
fs::path save(CheckpointDirectory& directory, std::int64_t serial) {
  return directory.save(100 + serial, rota::test::make_state(100 + serial, {}, kBytes)).info.path;
}

void expect_latest(CheckpointDirectory& directory, std::int64_t serial) {
  const auto newest = directory.latest();
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->info().serial, serial);
  EXPECT_EQ(newest->info().step, 100 + serial);
  EXPECT_EQ(rota::test::difference(*newest, kBytes), "");
}

// Four checkpoints, of which serial i is damaged where bit i of `combination` is set.
class Four {
 public:
  Four(int combination, const Damage& damage) : trace_(__FILE__, __LINE__, std::to_string(combination)) {
    CheckpointDirectory directory = open(kCount);
    for (int serial = 0; serial < kCount; ++serial) {
      const bool is_damaged = (combination >> serial & 1) != 0;
      files_.push_back(save(directory, serial));
      if (is_damaged) damage.harm(files_.back());
      if (!is_damaged) newest_good_ = serial;
    }
  }
  ~Four() { fs::remove_all(path_); }
  Four(const Four&) = delete;
  Four& operator=(const Four&) = delete;

  [[nodiscard]] CheckpointDirectory open(std::int64_t keep_last) const {
    return {{}, path_, {.keep_last = keep_last}};
  }
  [[nodiscard]] bool has(int serial) const { return fs::exists(files_.at(static_cast<std::size_t>(serial))); }
  [[nodiscard]] bool has_newest_good() const { return !newest_good_ || has(*newest_good_); }

  // Takes the newest good one, or says that there is none.
  void expect_newest_good(CheckpointDirectory& directory) const {
    if (newest_good_) {
      expect_latest(directory, *newest_good_);
    } else {
      EXPECT_THAT(thrown_error([&] { (void)directory.latest(); }),
                  IsError(ErrorCode::corrupt, "none is good"));
    }
    std::vector<fs::path> rejected;
    for (const auto& bad : directory.rejected()) rejected.push_back(bad.path);
    const std::vector<fs::path> newer(files_.rbegin(), files_.rend() - 1 - newest_good_.value_or(-1));
    EXPECT_THAT(rejected, ElementsAreArray(newer));
  }

 private:
  ::testing::ScopedTrace trace_;
  fs::path path_ = rota::test::make_directory();
  std::vector<fs::path> files_;
  std::optional<int> newest_good_;
};

class DamagedNewest : public ::testing::TestWithParam<Damage> {};

TEST_P(DamagedNewest, ArePassedOverAndSavesGoOnAboveThem) {
  for (int combination = 0; combination < 1 << kCount; ++combination) {
    const Four four(combination, GetParam());
    CheckpointDirectory directory = four.open(kCount);
    four.expect_newest_good(directory);
    save(directory, kCount);
    expect_latest(directory, kCount);
    EXPECT_THAT(directory.rejected(), IsEmpty());
  }
}

TEST_P(DamagedNewest, NeverCostTheLastGoodOneBeforeANewerOneWasRead) {
  for (int combination = 0; combination < 1 << kCount; ++combination) {
    const Four four(combination, GetParam());
    CheckpointDirectory directory = four.open(1);
    four.expect_newest_good(directory);
    for (std::int64_t serial = kCount; serial < kCount + 3; ++serial) {
      save(directory, serial);
      EXPECT_TRUE(four.has_newest_good());
    }
    expect_latest(directory, kCount + 2);
    save(directory, kCount + 3);
    for (int serial = 0; serial < kCount; ++serial) EXPECT_FALSE(four.has(serial));
    expect_latest(directory, kCount + 3);
  }
}

TEST_P(DamagedNewest, DoNotKeepAJobThatHasNotReadThemFromSaving) {
  for (int combination = 0; combination < 1 << kCount; ++combination) {
    const Four four(combination, GetParam());
    CheckpointDirectory directory = four.open(2);
    save(directory, kCount);
    expect_latest(directory, kCount);
    EXPECT_THAT(directory.rejected(), IsEmpty());
  }
}

INSTANTIATE_TEST_SUITE_P(EachOfFour, DamagedNewest,
                         ::testing::Values(Damage{"flipped", flip_a_byte}, Damage{"cut", cut},
                                           Damage{"emptied", empty}),
                         [](const auto& test) { return test.param.name; });

}  // namespace rota::test::damaged_newest_test
