#include "trace/phases.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <functional>

namespace rota::trace {
namespace {

template <typename... Values>
std::uint64_t hash(Values... values) {
  const std::array<std::uint64_t, sizeof...(values)> all{static_cast<std::uint64_t>(values)...};
  return XXH3_64bits(all.data(), sizeof(all)) | 1;
}

}  // namespace

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
    damage.insert(damage.end(), file.damage().begin(), file.damage().end());
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
    if (reader.is_taken) {
      reader.has_batch = reader.file.next(reader.batch);
      for (const std::string& damage : reader.file.damage()) step.damage.emplace_back(reader.rank, damage);
      for (const TraceFate& fate : reader.file.fates()) step.fates.emplace_back(reader.rank, fate);
    }
    reader.is_taken = false;
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
    if (reader.file.end()) ends[reader.rank] = *reader.file.end();
  }
  return ends;
}

Fact bytes_fact(const TraceStart& start, const TraceSlot& slot) {
  return {hash(start.is_stream() ? slot.set : 0, slot.id, slot.output),
          start.is_stream() ? hash(slot.slot, slot.digest) : hash(slot.digest)};
}

Fact order_fact(const TraceStart& start, const TraceBatch& batch, const TraceSlot& slot) {
  const auto [epoch, consumed, step] = batch.start;
  if (start.is_stream())  // four values, for a key that no sample has
    return {hash(0, epoch, slot.set, slot.slot), hash(slot.id, slot.output, slot.digest)};
  const bool straddles = consumed + batch.n > start.epoch_samples();
  const int tail = straddles ? static_cast<int>(start.tail) : -1;
  return {hash(epoch, consumed, batch.n, tail, slot.slot, start.course), hash(slot.id)};
}

std::map<std::uint64_t, std::vector<Sighting>> find_facts(const Phases& phases,
                                                          const std::set<std::uint64_t>& keys) {
  std::map<std::uint64_t, std::vector<Sighting>> seen;
  for (auto phase = phases.begin(); !keys.empty() && phase != phases.end(); ++phase) {
    const auto& [number, files] = *phase;
    PhaseSteps steps(files);
    for (Step step; steps.next(step);) {
      for (const auto& [rank, batch] : step.slices) {
        for (const TraceSlot& slot : batch->slots) {
          for (const Fact& fact : {bytes_fact(files.start, slot), order_fact(files.start, *batch, slot)}) {
            if (slot.has_bytes() && keys.contains(fact.key))
              seen[fact.key].push_back({fact.value, number, rank, batch->start});
          }
        }
      }
    }
  }
  return seen;
}

std::uint64_t hash_of(const TraceSlot& slot) {
  return hash(slot.slot, slot.id, slot.kind, slot.has_bytes() ? slot.digest : 0);
}

}  // namespace rota::trace
