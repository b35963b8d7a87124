// A rank that stops, is slow, or throws, once, at a chosen point of a save or a restore.

#include "checkpoint/checkpoint_fixture.hpp"
#include "checkpoint/faulty_file_system.hpp"
#include "faults.hpp"
#include "jobs.hpp"

namespace rota::test {
namespace {

// Points are named `KIND` or `KIND:N`, the N-th of its kind, from 0: calls of a FaultyFileSystem, and what
// the job says. *Any thread.*
class Hitch {
 public:
  // Returns an error number, with which the call at that point is to fail; 0: it is to be made.
  using Act = std::function<int()>;

  // `act` is done at `point`, once, from now on.
  void arm(const std::string& point, Act act) {
    const std::scoped_lock lock(mutex_);
    const std::size_t colon = point.find(':');
    kind_ = point.substr(0, colon);
    number_ = colon == std::string::npos ? 0 : std::stoi(point.substr(colon + 1));
    act_ = std::move(act);
  }
  void disarm() { arm("", nullptr); }
  // This rank has come to a point of this kind.
  int reach(std::string_view kind) {
    Act act;
    {
      const std::scoped_lock lock(mutex_);
      if (!act_ || kind != kind_ || number_-- > 0) return 0;
      act = std::exchange(act_, nullptr);
    }
    return act();
  }

 private:
  std::mutex mutex_;
  std::string kind_;
  int number_ = 0;
  Act act_;
};

// The one of this process.
Hitch& hitch() {
  static Hitch only;
  return only;
}

// A shell lets this process go on after a while.
void resume_after(std::chrono::milliseconds pause) {
  const double seconds = std::chrono::duration<double>(pause).count();
  const std::string command = fmt::format("(sleep {}; kill -CONT {}) &", seconds, ::getpid());
  if (std::system(command.c_str()) != 0) throw std::runtime_error("cannot start a shell");
}

int act(std::string_view name) {
  if (name == kThrows) return EIO;
  if (name == kLags) {
    std::this_thread::sleep_for(kPause);
    return 0;
  }
  if (name == kPauses) resume_after(kPause);
  if (name == kReturns) resume_after(kReturn);
  ::kill(::getpid(), SIGSTOP);
  return 0;
}

// A state, the handling of which is a point, too.
struct State {
  std::int64_t step = 0;
  World world;

  static void reach() {
    if (hitch().reach("state") != 0) throw std::runtime_error("the state is out of order");
  }
  void save(Snapshot& snapshot) const {
    reach();
    add_state(snapshot, step, world, kStateBytes);
  }
  void restore(const Checkpoint& checkpoint) {
    reach();
    step = checkpoint.info().step;
    const std::string wrong = difference(checkpoint, kStateBytes);
    if (!wrong.empty()) throw std::runtime_error("restored wrong: " + wrong);
  }
};

// One case, on this rank.
class Stall {
 public:
  Stall(Job& job, std::istream& line) : job_(job) {
    line >> path_ >> operation_ >> rank_ >> point_ >> hitch_;
    system_.on_call = [](std::string_view kind) { return hitch().reach(kind); };
  }

  void run() {
    job_.say("pid", std::to_string(::getpid()));
    CheckpointPolicy policy = job_policy();
    policy.keep_last = 1;
    const bool is_missed = hitch_ == kStops || hitch_ == kReturns;
    if (is_missed) policy.deadline = kMissedDeadline;
    auto directory = CheckpointDirectoryAccess::open(job_.comm(), path_, policy, system_);
    directory.save_all(kOldStep, state(kOldStep));
    if (rank_ == job_.world().rank) {
      hitch().arm(point_, [this] {
        job_.say("hit", point_);
        return act(hitch_);
      });
    }
    job_.attempt("did", [&] { return fmt::format("ok {}", operate(directory)); });
    hitch().disarm();
    if (!is_missed) {
      ranks::agree(job_.comm(), "look at a directory", nullptr);
      job_.say("names", fmt::format("{}", fmt::join(names_in(path_), " ")));
    }
    job_.attempt("newest", [&] { return fmt::format("ok {}", restore(directory)); });
    job_.attempt("next", [&] {
      return fmt::format("ok {}", directory.save_all(kNextStep, state(kNextStep)).info.step);
    });
  }

 private:
  State state(std::int64_t step) const { return {.step = step, .world = job_.world()}; }

  std::int64_t operate(CheckpointDirectory& directory) {
    static_cast<void>(hitch().reach("before"));
    if (operation_ == "restore") return restore(directory);
    if (operation_ == "save") return directory.save_all(kNewStep, state(kNewStep)).info.step;
    directory.save_all_async(kNewStep, state(kNewStep));
    static_cast<void>(hitch().reach("between"));
    return directory.wait().value().info.step;
  }
  std::int64_t restore(CheckpointDirectory& directory) {
    State restored = state(-1);
    return directory.restore_all(restored) ? restored.step : -1;
  }

  Job& job_;
  std::string path_;
  std::string operation_;
  int rank_ = 0;
  std::string point_;
  std::string hitch_;
  FaultyFileSystem system_;
};

}  // namespace

void stall(Job& job, std::istream& line) { Stall(job, line).run(); }

}  // namespace rota::test
