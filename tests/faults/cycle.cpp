// Saves until it is killed.

#include <sys/time.h>

#include "jobs.hpp"

namespace rota::test {
namespace {

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
  int victim = 0;
  int delay = 0;
  std::string from;
  line >> path >> victim >> delay >> from;
  const World world = job.world();
  const auto die_soon = [&] {  // by a signal, as of SIGKILL: nothing is put in order
    const itimerval timer{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_usec = 1 + 1000 * delay}};
    if (victim < 0 || victim == world.rank) ::setitimer(ITIMER_REAL, &timer, nullptr);
  };
  if (from == "start") die_soon();

  CheckpointPolicy policy = job_policy();
  policy.keep_last = kKeepLast;
  CheckpointDirectory directory(job.comm(), path, policy);
  std::int64_t step = -1;
  std::string wrong;
  if (const auto newest = directory.latest()) {
    step = newest->info().step;
    wrong = difference(*newest, kCycleBytes);
  }
  job.say("restored", std::to_string(step) + wrong);
  for (const auto until = std::chrono::steady_clock::now() + 30s; std::chrono::steady_clock::now() < until;) {
    save(directory, ++step, world);
    job.say("saved", std::to_string(step));
    if (world.rank == 0) require_small(path);
    if (std::exchange(from, "") == "first") die_soon();
  }
  throw std::runtime_error("nobody was killed");
}

}  // namespace rota::test
