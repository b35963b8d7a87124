#include "trace/phase_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace rota::trace {

TraceStart most_common(const std::vector<TraceStart>& starts,
                       bool (TraceStart::*is_same)(const TraceStart&) const noexcept) {
  const TraceStart* most = nullptr;
  std::int64_t lead = 0;  // the majority vote of Boyer and Moore
  for (const TraceStart& start : starts) {
    if (lead == 0) most = &start;
    lead += std::invoke(is_same, *most, start) ? 1 : -1;
  }
  return *most;
}

Phases find_phases(const std::filesystem::path& dir, std::vector<std::string>& damage) {
  Phases phases;
  for (const auto& path : trace_files(dir)) {
    const TraceFile file(path);
    if (!file.damage().empty()) damage.push_back(file.damage());
    if (!file.start()) continue;
    const int rank = file.start()->world.rank;
    Phase& phase = phases[file.start()->phase];
    phase.starts.try_emplace(rank, *file.start());
    const auto [first, is_new] = phase.files.try_emplace(rank, path);
    if (is_new) continue;
    damage.push_back(fmt::format("two trace files of phase {}, rank {}: {} and {}", file.start()->phase, rank,
                                 first->second.filename().string(), path.filename().string()));
  }
  std::int64_t limit = Phase().limit;
  std::for_each(phases.rbegin(), phases.rend(), [&](Phases::value_type& numbered) {
    Phase& phase = numbered.second;
    std::vector<TraceStart> starts;
    for (const auto& [rank, start] : phase.starts) starts.push_back(start);
    phase.start = most_common(starts, &TraceStart::is_same_phase);
    phase.limit = limit;
    limit = std::min(limit, phase.start.from.step);
  });
  return phases;
}

std::int64_t Step::slots(std::optional<SlotKind> kind) const {
  std::int64_t slots = 0;
  for (const auto& [rank, batch] : slices)
    slots += kind ? std::ranges::count(batch->slots, *kind, &TraceSlot::kind) : std::ssize(batch->slots);
  return slots;
}

PhaseSteps::PhaseSteps(const Phase& phase) {
  for (const auto& [rank, path] : phase.files) readers_.push_back({.rank = rank, .file = TraceFile(path)});
}

bool PhaseSteps::next(Step& step) {
  step = {};
  const Reader* lowest = nullptr;
  for (Reader& reader : readers_) {
    if (reader.is_taken) advance(reader, step);
    if (!reader.has_batch) continue;
    if (lowest == nullptr || reader.batch.start.step < lowest->batch.start.step) lowest = &reader;
  }
  if (lowest == nullptr) return false;
  step.start = lowest->batch.start;
  step.n = lowest->batch.n;
  for (Reader& reader : readers_) {
    reader.is_taken = reader.has_batch && reader.batch.start.step == step.start.step;
    if (reader.is_taken) {
      step.slices.push_back({reader.rank, &reader.batch});
    } else {
      step.absent.push_back({reader.rank, !reader.has_batch});
    }
  }
  return true;
}

std::map<int, Position> PhaseSteps::ends() const {
  std::map<int, Position> ends;
  for (const Reader& reader : readers_) {
    if (reader.file.end()) ends[reader.rank] = reader.file.end()->at;
  }
  return ends;
}

void PhaseSteps::advance(Reader& reader, Step& step) {
  TraceFile::Next next{};
  reader.is_taken = false;
  while ((next = reader.file.next(reader.batch)) == TraceFile::Next::damaged) {
    step.damage.emplace_back(reader.rank, reader.file.damage());
  }
  reader.has_batch = next == TraceFile::Next::batch;
}

}  // namespace rota::trace
