// A program under mpirun and the interposed library, in three parts:
//
//   driver save WRITER REPORT CASES   one save with a fault for each line `DIRECTORY RANK AT KIND` of CASES
//   driver restore REPORT CASES       restores from each directory of CASES, and saves there once more
//   driver record WRITER DIRECTORY N  N saves, with a mark of its step as each is acknowledged
//
// Each rank appends what happened to the file REPORT/<rank>, in lines `CASE WHAT TEXT`: what a save and the
// next one in the same process did, or what was restored, and what was left after one more save.

#include <dlfcn.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "faults.hpp"
#include "rota/checkpoint_directory.hpp"
#include "rota/error.hpp"
#include "saved_state.hpp"
#include "steps.hpp"

namespace {

namespace fs = std::filesystem;
using rota::CheckpointDirectory;
using rota::mpi::Session;

// A function of the interposed library.
template <typename Function>
Function* interposed(const char* name) {
  void* found = ::dlsym(RTLD_DEFAULT, name);
  if (found == nullptr) throw std::runtime_error(std::string(name) + ": the library is not preloaded");
  return reinterpret_cast<Function*>(found);
}

rota::CheckpointPolicy policy_of(std::string_view writer) {
  const bool is_collective = writer == "collective";
  return {.deadline = std::chrono::seconds(5),
          .writer = is_collective ? rota::Writer::collective : rota::Writer::direct};
}

// WRITER is also "background": direct, and not waited for until the end.
void save_with(CheckpointDirectory& directory, std::string_view writer, std::int64_t step,
               const Session& session) {
  rota::Snapshot state = rota::test::make_state(step, session.world(), rota::test::kStateBytes);
  if (writer == "background") {
    directory.save_async(step, std::move(state));
    directory.wait();
  } else {
    directory.save(step, state);
  }
}

struct Fault {
  fs::path directory;
  int rank = 0;
  std::int64_t at = 0;
  std::string kind;
};

std::istream& operator>>(std::istream& in, Fault& fault) {
  std::string directory;
  in >> directory >> fault.rank >> fault.at >> fault.kind;
  fault.directory = directory;
  return in;
}

template <typename T>
std::vector<T> read_all(const fs::path& file) {
  std::ifstream in(file);
  std::vector<T> values;
  for (T value; in >> value;) values.push_back(value);
  return values;
}

// What one rank says of one case after the other. A line is out before anything else happens.
class Report {
 public:
  Report(const Session& session, const fs::path& directory)
      : out_(directory / std::to_string(session.world().rank), std::ios::app) {}

  void begin(std::size_t number) { case_ = number; }
  void say(std::string_view what, std::string text) {
    std::ranges::replace(text, '\n', ' ');
    out_ << case_ << ' ' << what << ' ' << text << std::endl;
  }

 private:
  std::ofstream out_;
  std::size_t case_ = 0;
};

// On rank 0 alone, while the others wait.
template <typename Work>
void at_root(const Session& session, Work&& work) {
  rota::mpi::together(session.comm(), "prepare a case", [&] {
    if (session.world().rank == 0) work();
  });
}

// ---- save ----

class Saving {
 public:
  Saving(const Session& session, std::string_view writer, const fs::path& report)
      : session_(session), writer_(writer), policy_(policy_of(writer)), report_(session, report) {}

  void run(std::span<const Fault> faults) {
    if (faults.empty()) return;
    const fs::path old = faults.front().directory.string() + ".old";
    make_old(old);
    for (std::size_t i = 0; i < faults.size(); ++i) {
      report_.begin(i);
      at_root(session_, [&] { fs::copy(old, faults[i].directory); });
      run(faults[i]);
    }
  }

 private:
  // What each case begins with: so many checkpoints that one is to be dropped, and a temporary to be swept.
  void make_old(const fs::path& path) {
    {
      CheckpointDirectory directory(session_.comm(), path, policy_);
      for (const std::int64_t step : {rota::test::kOlderStep, rota::test::kOldStep}) {
        save_with(directory, writer_, step, session_);
      }
    }
    at_root(session_, [&] { std::ofstream(path / ".checkpoint-000000000000.dead.tmp") << "half"; });
  }

  void run(const Fault& fault) {
    const auto kind = rota::test::kind_of(fault.kind);
    rota::CheckpointPolicy policy = policy_;
    if (kind == rota::test::Kind::late) policy.deadline = rota::test::kMissedDeadline;
    CheckpointDirectory directory(session_.comm(), fault.directory, policy);
    static_cast<void>(directory.latest());
    const bool is_here = fault.rank == session_.world().rank;
    interposed<decltype(rota_faults_arm)>("rota_faults_arm")(is_here ? fault.at : -1, static_cast<int>(kind));
    report_.say("armed", fault.kind);
    save("first", directory, rota::test::kNewStep);
    interposed<decltype(rota_faults_disarm)>("rota_faults_disarm")();
    if (kind == rota::test::Kind::count) report_.say("calls", calls());
    if (is_here) report_.say("hit", call(fault.at));
    at_root(session_, [&] { fs::copy(fault.directory, fault.directory.string() + ".after"); });
    save("again", directory, rota::test::kNextStep);
  }

  // A missed deadline ends the job.
  void save(std::string_view what, CheckpointDirectory& directory, std::int64_t step) {
    try {
      save_with(directory, writer_, step, session_);
      report_.say(what, "saved");
    } catch (const rota::Error& error) {
      report_.say(what, "error " + std::string(to_string(error.code())) + ": " + error.what());
      if (error.code() == rota::ErrorCode::timeout) throw;
    }
  }

  // The name of the i-th call; empty where there were fewer.
  static std::string call(std::int64_t i) {
    const std::int64_t count = interposed<decltype(rota_faults_count)>("rota_faults_count")();
    return i < count ? interposed<decltype(rota_faults_call)>("rota_faults_call")(i) : "";
  }
  static std::string calls() {
    std::string names;
    for (std::int64_t i = 0; !call(i).empty(); ++i) names += call(i) + ' ';
    return names;
  }

  const Session& session_;
  std::string writer_;
  rota::CheckpointPolicy policy_;
  Report report_;
};

// ---- restore ----

std::string restored(CheckpointDirectory& directory) {
  const auto checkpoint = directory.latest();
  if (!checkpoint) return "nothing";
  const std::string difference = rota::test::difference(*checkpoint, rota::test::kStateBytes);
  if (!difference.empty()) return "wrong: " + difference;
  return "step " + std::to_string(checkpoint->info().step);
}

std::string temporaries_in(const fs::path& directory) {
  std::string names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("checkpoint-")) names += " " + name;
  }
  return names;
}

void restore(const Session& session, const fs::path& path, Report& report) {
  try {
    CheckpointDirectory directory(session.comm(), path, policy_of("direct"));
    report.say("restored", restored(directory));
    const std::int64_t step = rota::test::kLastStep;
    directory.save(step, rota::test::make_state(step, session.world(), rota::test::kStateBytes));
    report.say("then", "saved" + temporaries_in(path));
  } catch (const rota::Error& error) {
    report.say("failed", error.what());
    if (error.code() == rota::ErrorCode::timeout) throw;
  }
}

// ---- record ----

void record(const Session& session, std::string_view writer, const fs::path& path, std::int64_t saves) {
  CheckpointDirectory directory(session.comm(), path, policy_of(writer));
  for (std::int64_t step = 0; step < saves; ++step) {
    save_with(directory, writer, step, session);
    interposed<decltype(rota_faults_mark)>("rota_faults_mark")(step);
  }
}

int run(const Session& session, const std::vector<std::string>& arguments) {
  if (arguments.size() == 4 && arguments[0] == "save") {
    Saving(session, arguments[1], arguments[2]).run(read_all<Fault>(arguments[3]));
  } else if (arguments.size() == 3 && arguments[0] == "restore") {
    const auto directories = read_all<std::string>(arguments[2]);
    Report report(session, arguments[1]);
    for (std::size_t i = 0; i < directories.size(); ++i) {
      report.begin(i);
      restore(session, directories[i], report);
    }
  } else if (arguments.size() == 4 && arguments[0] == "record") {
    record(session, arguments[1], arguments[2], std::stol(arguments[3]));
  } else {
    throw std::runtime_error("see the head of driver.cpp for the arguments");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Session session(argc, argv, rota::mpi::ThreadLevel::multiple);  // as the collective writer wants it
  return session.run([&] { return run(session, {argv + 1, argv + argc}); });
}
