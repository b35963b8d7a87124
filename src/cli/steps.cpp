#include "cli/steps.hpp"

#include <algorithm>

namespace rota::trace {
namespace {

std::size_t count(const Step& step, Slice::State state) {
  return static_cast<std::size_t>(
      std::ranges::count_if(step.slices, [&](const Slice& slice) { return slice.state == state; }));
}

}  // namespace

bool Step::is_stray() const noexcept { return 2 * count(*this, Slice::State::present) < slices.size(); }

bool Step::is_complete() const noexcept { return count(*this, Slice::State::present) == slices.size(); }

PhaseSteps::PhaseSteps(const std::vector<std::filesystem::path>& files, Problems& problems)
    : problems_(&problems) {
  for (const auto& file : files) readers_.push_back({.file = TraceFile(file), .batch = {}});
  for (Reader& reader : readers_) advance(reader);
}

bool PhaseSteps::next(Step& step) {
  for (const std::size_t i : taken_) advance(readers_[i]);
  taken_.clear();

  const Reader* lowest = nullptr;
  for (const Reader& reader : readers_) {
    if (!reader.has_batch) continue;
    if (lowest == nullptr || reader.batch.start.step < lowest->batch.start.step) lowest = &reader;
  }
  if (lowest == nullptr) return false;

  step.start = lowest->batch.start;
  step.n = lowest->batch.n;
  step.slices.clear();
  for (std::size_t i = 0; i < readers_.size(); ++i) {
    const Reader& reader = readers_[i];
    Slice slice{.rank = reader.file.start()->world.rank};
    if (reader.has_batch && reader.batch.start.step == step.start.step) {
      slice.state = Slice::State::present;
      slice.batch = &reader.batch;
      taken_.push_back(i);
    } else if (reader.had_damage) {
      slice.state = Slice::State::damaged;
    } else {
      slice.state = reader.has_batch ? Slice::State::absent : Slice::State::ended;
    }
    step.slices.push_back(slice);
  }
  return true;
}

std::vector<std::optional<TraceEnd>> PhaseSteps::ends() const {
  std::vector<std::optional<TraceEnd>> ends;
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
    const TraceStart& start = *reader.file.start();
    problems_->add({.kind = ProblemKind::format,
                    .phase = start.phase,
                    .rank = start.world.rank,
                    .text = reader.file.damage()});
  }
}

}  // namespace rota::trace
