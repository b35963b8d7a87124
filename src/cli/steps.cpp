#include "cli/steps.hpp"

namespace rota::cli {

using trace::TraceFile;

PhaseSteps::PhaseSteps(const std::vector<std::filesystem::path>& files, Problems& problems)
    : problems_(&problems) {
  for (const auto& file : files) readers_.push_back({.file = TraceFile(file), .batch = {}});
  for (Reader& reader : readers_) advance(reader);
}

bool PhaseSteps::next(Step& step) {
  const Reader* lowest = nullptr;
  for (Reader& reader : readers_) {
    if (reader.is_taken) advance(reader);
    if (!reader.has_batch) continue;
    if (lowest == nullptr || reader.batch.start.step < lowest->batch.start.step) lowest = &reader;
  }
  if (lowest == nullptr) return false;

  step = {.start = lowest->batch.start, .n = lowest->batch.n, .slices = {}, .absent = {}};
  for (Reader& reader : readers_) {
    const int rank = reader.file.start()->world.rank;
    reader.is_taken = reader.has_batch && reader.batch.start.step == step.start.step;
    if (reader.is_taken) {
      step.slices.push_back({.rank = rank, .batch = &reader.batch});
    } else {
      step.absent.push_back({.rank = rank,
                             .reason = reader.had_damage  ? Absence::Reason::damaged
                                       : reader.has_batch ? Absence::Reason::passed
                                                          : Absence::Reason::ended});
    }
  }
  return true;
}

std::vector<std::optional<trace::TraceEnd>> PhaseSteps::ends() const {
  std::vector<std::optional<trace::TraceEnd>> ends;
  for (const Reader& reader : readers_) ends.push_back(reader.file.end());
  return ends;
}

void PhaseSteps::advance(Reader& reader) {
  reader.had_damage = false;
  while (true) {
    const TraceFile::Next next = reader.file.next(reader.batch);
    reader.has_batch = next == TraceFile::Next::batch;
    if (next != TraceFile::Next::damaged) return;
    reader.had_damage = true;
    const trace::TraceStart& start = *reader.file.start();
    problems_->add({.kind = ProblemKind::format,
                    .phase = start.phase,
                    .rank = start.world.rank,
                    .text = reader.file.damage()});
  }
}

}  // namespace rota::cli
