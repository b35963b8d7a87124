#include "stalls.hpp"

#include <spawn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <thread>

#include "directory_access.hpp"
#include "hitch.hpp"
#include "mpi/collectives.hpp"
#include "programs.hpp"
#include "rota/error.hpp"
#include "saved_state.hpp"

namespace rota::test {
namespace {

using rota::CheckpointDirectory;
using Clock = std::chrono::steady_clock;

// A shell that lets this process go on after a while.
void resume_after(std::chrono::milliseconds pause) {
  std::string command = "sleep " + std::to_string(static_cast<double>(pause.count()) / 1000) +
                        "; kill -CONT " + std::to_string(::getpid());
  std::string shell = "sh";
  std::string option = "-c";
  std::array<char*, 4> arguments{shell.data(), option.data(), command.data(), nullptr};
  pid_t child = 0;
  if (::posix_spawn(&child, "/bin/sh", nullptr, nullptr, arguments.data(), environ) != 0) {
    throw std::runtime_error("cannot start a shell");
  }
}

int stop() {
  ::kill(::getpid(), SIGSTOP);
  return 0;
}

Hitch::Act act_of(std::string_view name) {
  if (name == kStops) return stop;
  if (name == kPauses) return [] { return resume_after(kPause), stop(); };
  if (name == kReturns) return [] { return resume_after(kReturn), stop(); };
  if (name == kThrows) return [] { return EIO; };
  return [] { return std::this_thread::sleep_for(kPause), 0; };
}

// A state, the handling of which is a point, too.
struct State {
  std::int64_t step = 0;
  rota::World world;

  static void reach() {
    if (hitch().reach("state") != 0) throw std::runtime_error("the state is out of order");
  }
  void save(rota::Snapshot& snapshot) const {
    reach();
    rota::test::add_state(snapshot, step, world, kStallBytes);
  }
  void restore(const rota::Checkpoint& checkpoint) {
    reach();
    step = checkpoint.info().step;
    const std::string wrong = rota::test::difference(checkpoint, kStallBytes);
    if (!wrong.empty()) throw std::runtime_error("restored wrong: " + wrong);
  }
};

// One case, on this rank.
class Case {
 public:
  Case(const rota::mpi::Session& session, const Report& report, std::size_t number, const Stall& stall)
      : session_(session), report_(report), number_(number), stall_(stall) {}

  void run() {
    say("pid", std::to_string(::getpid()));
    CheckpointDirectory directory = open();
    directory.save_all(kOldStep, state(kOldStep));
    if (stall_.rank == session_.world().rank) arm();
    attempt("did", [&] { return operate(directory); });
    hitch().disarm();
    if (!is_missed()) {
      rota::mpi::agree(session_.comm(), "look at a directory", nullptr);
      say("names", names());
    }
    attempt("newest", [&] { return restore(directory); });
    attempt("next", [&] { return directory.save_all(kNextStep, state(kNextStep)).info.step; });
  }

 private:
  [[nodiscard]] bool is_missed() const { return stall_.hitch == kStops || stall_.hitch == kReturns; }

  [[nodiscard]] CheckpointDirectory open() const {
    const auto deadline = is_missed() ? kMissedDeadline : kLongDeadline;
    return rota::CheckpointDirectoryAccess::open(
        session_.comm(), stall_.directory,
        {.keep_last = 1, .deadline = deadline, .writer = writer_of(stall_.writer)}, system_);
  }
  [[nodiscard]] State state(std::int64_t step) const { return {.step = step, .world = session_.world()}; }

  void arm() {
    hitch().arm(stall_.point, [this, act = act_of(stall_.hitch)] {
      say("hit", stall_.point);
      return act();
    });
  }

  std::int64_t operate(CheckpointDirectory& directory) {
    static_cast<void>(hitch().reach("before"));
    if (stall_.operation == "restore") return restore(directory);
    if (stall_.operation == "save") return directory.save_all(kNewStep, state(kNewStep)).info.step;
    directory.save_all_async(kNewStep, state(kNewStep));
    static_cast<void>(hitch().reach("between"));
    return directory.wait().value().info.step;
  }
  std::int64_t restore(CheckpointDirectory& directory) {
    State restored = state(-1);
    if (!directory.restore_all(restored)) return -1;
    return restored.step;
  }

  // A missed deadline ends the job.
  template <typename Work>
  void attempt(std::string_view what, Work&& work) {
    began_ = Clock::now();
    try {
      say(what, "ok " + std::to_string(work()));
    } catch (const rota::Error& error) {
      say(what, std::string(to_string(error.code())) + ": " + error.what());
      if (error.code() == rota::ErrorCode::timeout) throw;
    }
  }

  [[nodiscard]] std::string names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(stall_.directory)) {
      names.push_back(entry.path().filename());
    }
    std::ranges::sort(names);
    std::string text;
    for (const std::string& name : names) text += name + ' ';
    return text;
  }

  void say(std::string_view what, const std::string& text) const {
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - began_);
    report_.say(std::to_string(number_) + " " + std::string(what) + " " + std::to_string(took.count()) + " " +
                text);
  }

  const rota::mpi::Session& session_;
  const Report& report_;
  std::size_t number_;
  const Stall& stall_;
  HitchFileSystem system_;
  Clock::time_point began_ = Clock::now();
};

}  // namespace

void run_phases(const rota::mpi::Session& session, const Report& report, const Arguments& arguments) {
  std::ifstream file(arguments.at(0));
  std::size_t number = 0;
  for (Stall stall; file >> stall; ++number) Case(session, report, number, stall).run();
}

}  // namespace rota::test
