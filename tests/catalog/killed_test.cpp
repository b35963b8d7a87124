// Ranks that are killed leave nothing in shared memory, nor among temporary files.

#include "run_command.hpp"
#include "test.hpp"

namespace rota::test::killed_test {

using Names = std::set<std::string>;

Names entries_of(const fs::path& directory) {
  Names names;
  for (const auto& entry : fs::directory_iterator(directory)) names.insert(entry.path().filename().string());
  return names;
}

// What living processes have mapped: other jobs may run here.
std::string all_mappings() {
  std::string text;
  for (const auto& process : fs::directory_iterator("/proc")) {
    std::ifstream maps(process.path() / "maps");
    text.append(std::istreambuf_iterator<char>(maps), {});
  }
  return text;
}

// Open MPI's own segments apart, which a busy mpirun does not always remove.
Names left_since(const Names& before) {
  const std::string mapped = all_mappings();
  Names left;
  for (const std::string& name : entries_of("/dev/shm")) {
    const bool is_known = before.contains(name) || name.starts_with("vader_segment.");
    if (!is_known && mapped.find(name) == std::string::npos) left.insert(name);
  }
  return left;
}

class Killed : public ::testing::TestWithParam<const char*> {
 protected:
  Killed() {
    fs::create_directory(temporary_);
    for (int i = 0; i < 3000; ++i)
      data_.write(fmt::format("{:02}/{:05}", i % 20, i), fmt::format("{}\n\n", i));
  }

  void kill_all_ranks_after(std::int64_t milliseconds) {
    const Names before = entries_of("/dev/shm");
    const Ended ended =
        run_command(fmt::format("TMPDIR={} timeout 60 {} 4 {} {} {} {}", temporary_.string(), ROTA_MPIEXEC,
                                ROTA_PROGRAMS "/test_helper victim", GetParam(), data_.path().string(), milliseconds));
    EXPECT_THAT(ended.output, ::testing::HasSubstr("signal 9")) << ended.code;
    EXPECT_THAT(left_since(before), ::testing::IsEmpty());
    EXPECT_THAT(entries_of(temporary_), ::testing::IsEmpty());
  }

  TemporaryDirectory data_;
  TemporaryDirectory aside_;
  fs::path temporary_ = aside_ / "tmp";
};

TEST_P(Killed, RanksLeaveNothingBehind) {
  std::mt19937 random(3);
  for (int i = 0; i < 4; ++i) kill_all_ranks_after(static_cast<std::int64_t>(random() % 200));
}

INSTANTIATE_TEST_SUITE_P(While, Killed, ::testing::Values("list", "index", "read"));

}  // namespace rota::test::killed_test
