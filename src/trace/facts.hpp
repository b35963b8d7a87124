#pragma once

// What records say that others must not contradict. Next: cli/audit.hpp.

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "trace/phase_steps.hpp"
#include "trace/trace_file.hpp"

namespace rota::trace {

/// Two hashes, neither of which is 0. Wherever the key is the same in a trace, the value must be.
struct Fact {
  std::uint64_t key = 0;
  std::uint64_t value = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): the zero that it sees is the compiler's
  friend auto operator<=>(const Fact&, const Fact&) = default;
};

/// The bytes of a sample, by its id; of a stream, at its position.
Fact bytes_fact(const TraceStart& start, const TraceSlot& slot);
/// The sample in a slot, by position and size of the global batch, and by the tail where it matters; of a
/// stream, the sample and its digest, by position in the shard.
Fact order_fact(const TraceStart& start, const TraceBatch& batch, const TraceSlot& slot);
/// A record that has such a fact.
struct Sighting {
  std::uint64_t value = 0;
  std::int64_t phase = 0;
  int rank = 0;
  Position start;  ///< of the global batch
};
/// All records that have a fact of one of these keys, by key, and by phase and step. Skipped samples say
/// nothing. Throws Error{io}.
std::map<std::uint64_t, std::vector<Sighting>> find_facts(const Phases& phases,
                                                          const std::set<std::uint64_t>& keys);
/// The hash of a slot of a global batch and all that it holds.
std::uint64_t hash_of(const TraceSlot& slot);

}  // namespace rota::trace
