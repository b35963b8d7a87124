// Saves until it is killed.

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "endurance.hpp"
#include "programs.hpp"
#include "saved_state.hpp"

namespace rota::test {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Kills this process some time after it was started.
class Killer {
 public:
  explicit Killer(milliseconds delay) : delay_(delay) {}
  void start() {
    if (thread_.joinable()) return;
    thread_ = std::jthread([delay = delay_](const std::stop_token& stop) {
      const auto until = Clock::now() + delay;
      while (Clock::now() < until && !stop.stop_requested()) {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
      if (!stop.stop_requested()) ::kill(::getpid(), SIGKILL);
    });
  }

 private:
  milliseconds delay_;
  std::jthread thread_;
};

// In one of three ways.
void save(rota::CheckpointDirectory& directory, std::int64_t step, const rota::World& world) {
  if (step % 3 == 0) {
    directory.save(step, rota::test::make_state(step, world, kCycleBytes));
    return;
  }
  directory.save_async(step, rota::test::make_state(step, world, kCycleBytes));
  while (step % 3 == 1 && !directory.poll()) std::this_thread::sleep_for(std::chrono::microseconds(100));
  directory.wait();
}

// What a directory may hold after a save: those that are kept, and the last that was read.
void require_small(const std::filesystem::path& path) {
  std::int64_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    ++files;
    if (entry.path().extension() != ".h5") throw std::runtime_error("left: " + entry.path().string());
  }
  if (files > kKeepLast + 1) throw std::runtime_error("it holds " + std::to_string(files) + " checkpoints");
}

}  // namespace

void run_cycle(const rota::mpi::Session& session, const Report& report, const Arguments& arguments) {
  const auto& [path, writer, victim, delay, from] =
      std::tie(arguments.at(0), arguments.at(1), arguments.at(2), arguments.at(3), arguments.at(4));
  const rota::World world = session.world();
  const bool is_victim = victim == "all" || victim == std::to_string(world.rank);
  Killer killer(milliseconds(std::stol(delay)));
  if (is_victim && from == "start") killer.start();

  rota::CheckpointDirectory directory(
      session.comm(), path,
      {.keep_last = kKeepLast, .deadline = std::chrono::seconds(20), .writer = writer_of(writer)});
  std::int64_t step = -1;
  if (const auto newest = directory.latest()) {
    step = newest->info().step;
    report.say("restored " + std::to_string(step) + " " + rota::test::difference(*newest, kCycleBytes));
  } else {
    report.say("restored -1 ");
  }
  for (const auto until = Clock::now() + std::chrono::seconds(30); Clock::now() < until;) {
    save(directory, ++step, world);
    report.say("saved " + std::to_string(step));
    if (world.rank == 0) require_small(path);
    if (is_victim) killer.start();
  }
  throw std::runtime_error("nobody was killed");
}

}  // namespace rota::test
