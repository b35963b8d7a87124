#pragma once

// Reading the files of a phase side by side, step by step.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
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
  static void advance(Reader& reader, Step& step);

  std::vector<Reader> readers_;
};

}  // namespace rota::trace
