#pragma once

// Reading the files of a phase side by side, step by step, and what its records say of samples.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trace/trace_file.hpp"

namespace rota::trace {

/// The files of a phase.
struct Phase {
  TraceStart start;                            ///< as most ranks say
  std::map<int, TraceStart> starts;            ///< by rank
  std::map<int, std::filesystem::path> files;  ///< by rank
  std::int64_t limit = kMaxTraced + 1;         ///< later phases resume from this step, and roll it back
};
using Phases = std::map<std::int64_t, Phase>;

/// One of `starts` that most are the same as, where there is such a one; otherwise any. There is at least
/// one.
TraceStart most_common(const std::vector<TraceStart>& starts,
                       bool (TraceStart::*is_same)(const TraceStart&) const noexcept);

/// The phases in `dir`. A file without a whole first record is left out; `damage` gets files that are no
/// traces, or the second of a rank. Throws Error{not_found}, Error{io}.
Phases find_phases(const std::filesystem::path& dir, std::vector<std::string>& damage);

/// What one rank has for one global batch; valid until the next step.
struct Slice {
  int rank = 0;
  const TraceBatch* batch = nullptr;
};

/// A rank with a file that has nothing for a global batch.
struct Absence {
  int rank = 0;
  bool has_ended = false;  ///< its trace ends before this step
};

/// One global batch, as told by the ranks of a phase that have it.
struct Step {
  Position start;                                        ///< as the first slice says
  std::int64_t n = 0;                                    ///< slots, likewise
  std::vector<Slice> slices = {};                        ///< in order of rank, empty behind the last step
  std::vector<Absence> absent = {};                      ///< in order of rank
  std::vector<std::pair<int, std::string>> damage = {};  ///< records that were passed over before it, by rank
  std::vector<std::pair<int, TraceFate>> fates = {};     ///< that records before it tell of, by rank

  /// Of all slices, those of this kind, or all.
  [[nodiscard]] std::int64_t slots(std::optional<SlotKind> kind = std::nullopt) const;
};

/// Walks through the steps of one phase. Ranks are matched by the numbers of their steps, so that one record
/// too few or too many does not shift all that follows. *One thread.*
class PhaseSteps {
 public:
  /// Opens the files. Throws Error{io}.
  explicit PhaseSteps(const Phase& phase);
  /// The next step, into `step`; false after the last.
  bool next(Step& step);
  /// Where each rank that has an end record ended, once all steps were read.
  [[nodiscard]] std::map<int, Position> ends() const;

 private:
  struct Reader {
    int rank;
    TraceFile file;
    TraceBatch batch = {};
    bool has_batch = false;
    bool is_taken = true;  // the last step handed its batch out
  };
  std::vector<Reader> readers_;
};

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
