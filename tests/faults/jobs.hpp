#pragma once

// Jobs that tests start under mpirun: `test_child job WHAT REPORT`. WHAT is done with each line of the file
// REPORT/cases, one after the other, by all ranks. Each rank says what happens in lines `CASE WHAT TEXT` of
// the file REPORT/<rank>.

#include "ranks/collectives.hpp"
#include "saved_state.hpp"

namespace rota::test {

/// Of a state, about, over all ranks.
inline constexpr std::int64_t kStateBytes = 27'000;

// In this order.
inline constexpr std::int64_t kOlderStep = 1;
inline constexpr std::int64_t kOldStep = 2;
inline constexpr std::int64_t kNewStep = 3;   ///< with the fault
inline constexpr std::int64_t kNextStep = 4;  ///< without, in the same process
inline constexpr std::int64_t kLastStep = 5;  ///< in another process

/// What a job that is killed again and again saves.
inline constexpr std::int64_t kCycleBytes = 300'000;
inline constexpr std::int64_t kKeepLast = 2;

/// What befalls a rank: it stops for good; it stops, and goes on `kReturn` later, when it has just been given
/// up; it stops for `kPause`, or the call takes as long; it fails.
inline constexpr std::string_view kStops = "stops";
inline constexpr std::string_view kReturns = "returns";
inline constexpr std::string_view kPauses = "pauses";
inline constexpr std::string_view kLags = "lags";
inline constexpr std::string_view kThrows = "throws";
inline constexpr auto kPause = 300ms;
inline constexpr auto kReturn = 2500ms;  // the missed deadline, the roll (700 ms), 300 ms for busy machines

inline CheckpointPolicy job_policy() { return {.deadline = 20s}; }

/// Saves "direct", or in the "background", and waits for it.
void save_so(CheckpointDirectory& directory, std::string_view how, std::int64_t step, Snapshot state);

/// A rank of a job, and what it says.
class Job {
 public:
  Job(const mpi::Session& session, fs::path report);
  ~Job() { ::close(fd_); }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// Does `work` with each line of the cases.
  void run(void (*work)(Job&, std::istream&));

  const Communicator& comm() const { return session_->comm(); }
  World world() const { return session_->world(); }
  const fs::path& report() const { return report_; }
  std::size_t number() const { return number_; }

  /// The line is out before anything else happens, whatever becomes of the process then. *Any thread.*
  void say(std::string_view what, std::string text) const;
  /// Says under `what` what `work` returns, or `CODE: MESSAGE` of its Error, and under `ms of WHAT` how long
  /// that took. A missed deadline ends the job.
  void attempt(std::string_view what, const std::function<std::string()>& work) const;
  /// On rank 0 alone, while the others wait.
  void at_root(const std::function<void()>& work) const;

 private:
  const mpi::Session* session_;
  fs::path report_;
  int fd_;
  std::size_t number_ = 0;
};

/// `HOW DIRECTORY RANK AT KIND`: a save in which call AT of RANK meets a fault. Says `first`, how it
/// ended, `hit`, the name of the call, `calls`, the names of all where KIND is count, and `again`, how the
/// next save ended. The directory is copied to DIRECTORY.after before that.
void save(Job& job, std::istream& line);

/// `DIRECTORY`: says `restored`, what is there, and `then`, what was left after one more save.
void restore(Job& job, std::istream& line);

/// `HOW DIRECTORY N`: N saves, with a mark of its step as each is acknowledged.
void record(Job& job, std::istream& line);

/// `DIRECTORY VICTIM DELAY_MS start|first`: says `restored`, the step and what differs, and saves on,
/// with `saved` and the step, until rank VICTIM (-1: every rank) kills itself, so long after the start or the
/// first save.
void cycle(Job& job, std::istream& line);

/// `DIRECTORY save|async|restore RANK POINT HITCH`: saves kOldStep, lets the hitch befall the
/// operation (a save is one of kNewStep), then looks at the newest checkpoint, and saves kNextStep. Says
/// `pid`, `hit` as the rank comes to the point, `did`, how the operation ended, `names`, what the directory
/// holds then, and `newest` and `next`, how the others ended.
void stall(Job& job, std::istream& line);

}  // namespace rota::test
