#include "phase.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <memory>

#include "dataset.hpp"
#include "rota/cereal.hpp"
#include "rota/checkpoint_directory.hpp"
#include "rota/error.hpp"
#include "rota/loader.hpp"
#include "rota/resume.hpp"
#include "rota/trace.hpp"

namespace rescale_demo {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kPhaseBlob = "demo/phase";

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The phase's number, saved beside the loader.
struct PhaseNumber {
  std::int64_t value = -1;
  void save(rota::Snapshot& snapshot) const { snapshot.blob(kPhaseBlob, rota::to_blob(value)); }
};

void refuse_used(const std::filesystem::path& dir) {
  std::error_code ignored;
  for (std::filesystem::directory_iterator entry(dir, ignored), last; entry != last;
       entry.increment(ignored)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with("checkpoint-") || !name.ends_with(".h5")) continue;
    throw rota::Error(
        rota::ErrorCode::invalid_argument,
        fmt::format("start a fresh run in {}: it holds checkpoints already ({}); give --resume to go "
                    "on from them, or another --checkpoint directory",
                    dir.string(), name));
  }
}

void write_summary(const std::filesystem::path& file, const PhaseSummary& summary) {
  std::ofstream out(file);
  out << fmt::format("{} {} {} {}\n", summary.steps, summary.samples, summary.restore_seconds,
                     summary.save_seconds);
  out.close();
  if (!out)
    throw rota::Error(rota::ErrorCode::io, fmt::format("write {}: it cannot be written", file.string()));
}

class Phase {
 public:
  Phase(const rota::Communicator& comm, const PhaseOptions& options) : comm_(comm), options_(options) {}

  void open();
  void restore();
  void start_trace();
  void deliver();
  void finish();

 private:
  void step(const rota::Batch& batch);
  void save();
  void lose(std::int64_t steps);
  [[nodiscard]] bool is_first() const { return comm_.rank() == 0; }

  const rota::Communicator& comm_;
  const PhaseOptions& options_;
  std::unique_ptr<rota::Loader> loader_;
  std::unique_ptr<rota::CheckpointDirectory> directory_;
  std::unique_ptr<rota::TraceWriter> trace_;
  PhaseNumber number_;
  std::int64_t saved_after_ = -1;  // steps of this phase
  bool was_asked_to_stop_ = false;
  PhaseSummary summary_;
};

void Phase::open() {
  comm_.together("look for checkpoints", [&] {
    if (is_first() && !options_.resume) refuse_used(options_.checkpoint);
  });
  std::shared_ptr<const rota::Source> source = open_dataset(options_.run, comm_);
  const RunOptions& run = options_.run;
  rota::LoaderOptions how = run.loader;
  if (run.datasets > 0) {
    how.plan = plan_of(source->size(), run, run.datasets);
    loader_ = std::make_unique<rota::Loader>(comm_, mixture_of(source, run, run.datasets), how);
  } else {
    loader_ = std::make_unique<rota::Loader>(comm_, std::move(source), how);
  }
  directory_ = std::make_unique<rota::CheckpointDirectory>(comm_, options_.checkpoint);
}

void Phase::restore() {
  if (!options_.resume) return;
  const auto start = Clock::now();
  const auto checkpoint = directory_->latest();
  if (is_first()) {
    for (const rota::CheckpointDirectory::Rejected& other : directory_->rejected()) {
      fmt::print(stderr, "warning: rejected {}: {}\n", other.path.string(), other.reason);
    }
  }
  if (!checkpoint) return;
  comm_.together("restore the loader", [&] {
    rota::restore(*loader_, *checkpoint);
    if (checkpoint->has_blob(kPhaseBlob)) {
      number_.value = rota::from_blob<std::int64_t>(checkpoint->blob(kPhaseBlob));
    }
  });
  summary_.restore_seconds = seconds_since(start);
}

void Phase::start_trace() {
  ++number_.value;
  if (!options_.trace) return;
  trace_ = std::make_unique<rota::TraceWriter>(comm_, *options_.trace, *loader_);
  number_.value = trace_->phase();
}

void Phase::deliver() {
  rota::StopSignal stop(comm_);
  while (!options_.stop_after || summary_.steps < *options_.stop_after) {
    was_asked_to_stop_ = stop.requested();
    if (was_asked_to_stop_) break;
    const auto batch = loader_->next();
    if (!batch) break;
    step(*batch);
  }
  if (saved_after_ != summary_.steps) save();
  if (options_.lost) lose(*options_.lost);
}

// Steps that no save has, and then nothing more.
void Phase::lose(std::int64_t steps) {
  comm_.together("wait for the save", [] {});
  for (; steps > 0; --steps) {
    const auto batch = loader_->next();
    if (!batch) break;
    if (trace_) trace_->write(*batch);
  }
  static_cast<void>(std::raise(SIGKILL));
}

void Phase::step(const rota::Batch& batch) {
  // A training program would use the batch here.
  if (trace_) trace_->write(batch);
  ++summary_.steps;
  summary_.samples += batch.global_size();
  if (options_.save_every && summary_.steps % *options_.save_every == 0) save();
}

void Phase::save() {
  summary_.save_seconds = directory_->save_all(loader_->position().step, *loader_, number_).seconds;
  saved_after_ = summary_.steps;
}

void Phase::finish() {
  if (trace_) trace_->end(*loader_);
  comm_.together("write the summary", [&] {
    if (is_first() && options_.summary) write_summary(*options_.summary, summary_);
  });
  if (!is_first()) return;
  const rota::Position at = loader_->position();
  fmt::print("phase {}: {} step{} at {} rank{} x {} worker{}{}; saved at epoch {}, sample {}\n",
             number_.value, summary_.steps, summary_.steps == 1 ? "" : "s", comm_.size(),
             comm_.size() == 1 ? "" : "s", options_.run.loader.workers,
             options_.run.loader.workers == 1 ? "" : "s", was_asked_to_stop_ ? ", then asked to stop" : "",
             at.epoch, at.consumed);
  std::fflush(stdout);
}

}  // namespace

PhaseSummary read_summary(const std::filesystem::path& file) {
  PhaseSummary summary;
  std::ifstream in(file);
  in >> summary.steps >> summary.samples >> summary.restore_seconds >> summary.save_seconds;
  if (!in) throw rota::Error(rota::ErrorCode::io, fmt::format("read {}: it is no summary", file.string()));
  return summary;
}

int run_phase(const rota::Communicator& comm, const PhaseOptions& options) {
  Phase phase(comm, options);
  phase.open();
  phase.restore();
  phase.start_trace();
  phase.deliver();
  phase.finish();
  return 0;
}

}  // namespace rescale_demo
