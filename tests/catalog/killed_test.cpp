// Ranks that are killed leave nothing in shared memory, nor among temporary files.

#include "run_command.hpp"

namespace rota::test::killed_test {

using Names = std::set<std::string>;

Names entries_of(const fs::path& directory) {
  Names names;
  for (const auto& entry : fs::directory_iterator(directory)) names.insert(entry.path().filename().string());
  return names;
}

// What living processes have mapped: other jobs may run here.
std::string all_mappings() {
  std::ostringstream text;
  for (const auto& process : fs::directory_iterator("/proc")) {
    text << std::ifstream(process.path() / "maps").rdbuf();
    text.clear();  // a process that ends meanwhile cannot be read
  }
  return text.str();
}

// Open MPI's own segments apart, which a busy mpirun does not always remove, and what other tests make
// meanwhile.
Names left_since(const Names& before) {
  const std::string mapped = all_mappings();
  Names left;
  for (const std::string& name : entries_of("/dev/shm")) {
    const bool is_known =
        before.contains(name) || name.starts_with("vader_segment.") || name.starts_with("rota-test-");
    if (!is_known && mapped.find(name) == std::string::npos) left.insert(name);
  }
  return left;
}

class Killed : public Test {
 protected:
  Killed() {
    fs::create_directory(temporary_);
    for (int i = 0; i < 600; ++i)
      data_.write(fmt::format("{:02}/{:05}", i % 20, i), fmt::format("{}\n\n", i));
  }

  // All ranks, some time after each of them began to list, index or read.
  void kill_all(int times) {
    std::mt19937 random(3);
    for (int i = 0; i < times; ++i) {
      for (const auto* what : {"list", "index", "read"}) {
        const Names before = entries_of("/dev/shm");
        const Ended ended = run_command(
            fmt::format("TMPDIR={} timeout 60 {} 4 {} {} {} {}", temporary_.string(), ROTA_MPIEXEC,
                        ROTA_PROGRAMS "/test_child victim", what, data_.path().string(), random() % 200));
        EXPECT_THAT(ended.output, HasSubstr("signal 9")) << ended.code;
        EXPECT_THAT(left_since(before), IsEmpty());
        EXPECT_THAT(entries_of(temporary_), IsEmpty());
      }
    }
  }

 private:
  TemporaryDirectory data_;
  TemporaryDirectory aside_;
  fs::path temporary_ = aside_ / "tmp";
};

TEST_F(Killed, RanksLeaveNothingBehind) { kill_all(1); }

using KilledCampaign = Killed;
TEST_F(KilledCampaign, RanksLeaveNothingBehind) { kill_all(10); }

}  // namespace rota::test::killed_test
