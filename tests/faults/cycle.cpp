// Saves until it is killed.

#include "jobs.hpp"

namespace rota::test {
namespace {

using Clock = std::chrono::steady_clock;

// Kills this process some time after it was started.
class Killer {
 public:
  explicit Killer(std::chrono::milliseconds delay) : delay_(delay) {}
  void start() {
    if (thread_.joinable()) return;
    thread_ = std::jthread([delay = delay_](const std::stop_token& stop) {
      const auto until = Clock::now() + delay;
      while (Clock::now() < until && !stop.stop_requested()) std::this_thread::sleep_for(200us);
      if (!stop.stop_requested()) ::kill(::getpid(), SIGKILL);
    });
  }

 private:
  std::chrono::milliseconds delay_;
  std::jthread thread_;
};

// In one of three ways.
void save(CheckpointDirectory& directory, std::int64_t step, const World& world) {
  if (step % 3 == 0) {
    directory.save(step, make_state(step, world, kCycleBytes));
    return;
  }
  directory.save_async(step, make_state(step, world, kCycleBytes));
  while (step % 3 == 1 && !directory.poll()) std::this_thread::sleep_for(100us);
  directory.wait();
}

// What a directory may hold after a save: those that are kept, and the last that was read.
void require_small(const fs::path& path) {
  std::int64_t files = 0;
  for (const auto& entry : fs::directory_iterator(path)) {
    ++files;
    if (entry.path().extension() != ".h5") throw std::runtime_error("left: " + entry.path().string());
  }
  if (files > kKeepLast + 1) throw std::runtime_error(fmt::format("it holds {} checkpoints", files));
}

}  // namespace

void cycle(Job& job, std::istream& line) {
  std::string path;
  std::string writer;
  int victim = 0;
  int delay = 0;
  std::string from;
  line >> path >> writer >> victim >> delay >> from;
  const World world = job.world();
  const bool is_victim = victim < 0 || victim == world.rank;
  Killer killer{std::chrono::milliseconds(delay)};
  if (is_victim && from == "start") killer.start();

  CheckpointPolicy policy = policy_of(writer);
  policy.keep_last = kKeepLast;
  CheckpointDirectory directory(job.comm(), path, policy);
  std::int64_t step = -1;
  std::string wrong;
  if (const auto newest = directory.latest()) {
    step = newest->info().step;
    wrong = difference(*newest, kCycleBytes);
  }
  job.say("restored", std::to_string(step) + wrong);
  for (const auto until = Clock::now() + 30s; Clock::now() < until;) {
    save(directory, ++step, world);
    job.say("saved", std::to_string(step));
    if (world.rank == 0) require_small(path);
    if (is_victim) killer.start();
  }
  throw std::runtime_error("nobody was killed");
}

}  // namespace rota::test
