// Saves with faults, what is restored after them, and saves of which a trace is recorded.

#include <dlfcn.h>

#include "faults.hpp"
#include "jobs.hpp"

namespace rota::test {
namespace {

// A function of the interposed library.
template <typename Function>
Function* interposed(const char* name) {
  void* found = ::dlsym(RTLD_DEFAULT, name);
  if (found == nullptr) throw std::runtime_error(std::string(name) + ": the library is not preloaded");
  return reinterpret_cast<Function*>(found);
}

// The name of the i-th call; empty where there were fewer.
std::string call(std::int64_t i) {
  const std::int64_t count = interposed<decltype(rota_faults_count)>("rota_faults_count")();
  return i < count ? interposed<decltype(rota_faults_call)>("rota_faults_call")(i) : "";
}

// What each case begins with: so many checkpoints that one is to be dropped, and a temporary to be swept.
void make_old(const Job& job, const fs::path& path, const std::string& how) {
  {
    CheckpointDirectory directory(job.comm(), path, job_policy());
    for (const std::int64_t step : {kOlderStep, kOldStep}) {
      save_so(directory, how, step, make_state(step, job.world(), kStateBytes));
    }
  }
  job.at_root([&] { std::ofstream(path / ".checkpoint-000000000000.dead.tmp") << "half"; });
}

std::string restored(CheckpointDirectory& directory) {
  const auto checkpoint = directory.latest();
  if (!checkpoint) return "nothing";
  const std::string wrong = difference(*checkpoint, kStateBytes);
  return wrong.empty() ? fmt::format("step {}", checkpoint->info().step) : "wrong: " + wrong;
}

}  // namespace

void save(Job& job, std::istream& line) {
  std::string how;
  std::string path;
  int rank = 0;
  std::int64_t at = 0;
  std::string name;
  line >> how >> path >> rank >> at >> name;
  const Kind kind = kind_of(name);
  const fs::path old = job.report() / "old";
  if (job.number() == 0) make_old(job, old, how);
  job.at_root([&] { fs::copy(old, path); });

  CheckpointPolicy policy = job_policy();
  policy.deadline = kind == Kind::late ? kMissedDeadline : 5s;
  CheckpointDirectory directory(job.comm(), path, policy);
  static_cast<void>(directory.latest());
  const auto save_step = [&](const char* what, std::int64_t step) {
    job.attempt(what, [&] {
      save_so(directory, how, step, make_state(step, job.world(), kStateBytes));
      return "saved";
    });
  };
  const bool is_here = rank == job.world().rank;
  interposed<decltype(rota_faults_arm)>("rota_faults_arm")(is_here ? at : -1, static_cast<int>(kind));
  job.say("armed", name);
  save_step("first", kNewStep);
  interposed<decltype(rota_faults_disarm)>("rota_faults_disarm")();
  if (kind == Kind::count) {
    std::string calls;
    for (std::int64_t i = 0; !call(i).empty(); ++i) calls += call(i) + ' ';
    job.say("calls", calls);
  }
  if (is_here) job.say("hit", call(at));
  job.at_root([&] { fs::copy(path, path + ".after"); });
  save_step("again", kNextStep);
}

void restore(Job& job, std::istream& line) {
  std::string path;
  line >> path;
  job.attempt("failed", [&] {
    CheckpointDirectory directory(job.comm(), path, job_policy());
    job.say("restored", restored(directory));
    directory.save(kLastStep, make_state(kLastStep, job.world(), kStateBytes));
    std::string temporaries;
    for (const auto& entry : fs::directory_iterator(path)) {
      const std::string name = entry.path().filename();
      if (!name.starts_with("checkpoint-")) temporaries += " " + name;
    }
    job.say("then", "saved" + temporaries);
    return "no";
  });
}

void record(Job& job, std::istream& line) {
  std::string how;
  std::string path;
  std::int64_t saves = 0;
  line >> how >> path >> saves;
  CheckpointDirectory directory(job.comm(), path, job_policy());
  for (std::int64_t step = 0; step < saves; ++step) {
    save_so(directory, how, step, make_state(step, job.world(), kStateBytes));
    interposed<decltype(rota_faults_mark)>("rota_faults_mark")(step);
  }
}

}  // namespace rota::test
