#include "trace/facts.hpp"

#include <xxhash.h>

#include <array>

namespace rota::trace {
namespace {

template <typename... Values>
std::uint64_t hash(Values... values) {
  const std::array<std::uint64_t, sizeof...(values)> all{static_cast<std::uint64_t>(values)...};
  return XXH3_64bits(all.data(), sizeof(all)) | 1;
}

}  // namespace

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
  return {hash(epoch, consumed, batch.n, tail, slot.slot), hash(slot.id)};
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
            if (slot.kind != SlotKind::skipped && keys.contains(fact.key))
              seen[fact.key].push_back({fact.value, number, rank, batch->start});
          }
        }
      }
    }
  }
  return seen;
}

std::uint64_t hash_of(const TraceSlot& slot) {
  return hash(slot.slot, slot.id, slot.kind, slot.kind == SlotKind::skipped ? 0 : slot.digest);
}

}  // namespace rota::trace
