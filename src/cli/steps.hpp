#pragma once

// The records of all ranks of a phase, put together step by step. Next: auditor.hpp.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "cli/problems.hpp"
#include "trace/trace_file.hpp"

namespace rota::cli {

/// What one rank has for one global batch; valid until the next step.
struct Slice {
  int rank = 0;
  const trace::TraceBatch* batch = nullptr;
};

/// A rank with a file that has nothing for it.
struct Absence {
  enum class Reason {
    passed,   ///< the rank is already past this step
    damaged,  ///< the same, after a record that could not be read
    ended,    ///< the rank's trace ends before this step
  };
  int rank = 0;
  Reason reason = Reason::passed;
};

/// One global batch, as told by the ranks of a phase.
struct Step {
  Position start;               ///< as the lowest rank says that has it
  std::int64_t n = 0;           ///< slots, as that rank says
  std::vector<Slice> slices;    ///< in order of rank
  std::vector<Absence> absent;  ///< in order of rank
  /// Most ranks with a file do not have it.
  [[nodiscard]] bool is_stray() const noexcept { return slices.size() < absent.size(); }
  /// Every rank with a file has it.
  [[nodiscard]] bool is_complete() const noexcept { return absent.empty(); }
};

/// Walks through the steps of one phase, all ranks side by side. Ranks are matched by the numbers of
/// their steps, so that one record too few or too many does not shift all that follows. *One thread.*
class PhaseSteps {
 public:
  /// Opens `files`, one per rank, in order of rank. Damaged records are added to `problems`.
  PhaseSteps(const std::vector<std::filesystem::path>& files, Problems& problems);

  /// The next step, into `step`; false after the last.
  bool next(Step& step);

  /// The end records read so far, by file; nothing where a rank has none.
  [[nodiscard]] std::vector<std::optional<trace::TraceEnd>> ends() const;

 private:
  struct Reader {
    trace::TraceFile file;
    trace::TraceBatch batch;
    bool has_batch = false;
    bool had_damage = false;  // since the batch before
    bool is_taken = false;    // the last step handed its batch out
  };
  void advance(Reader& reader);

  std::vector<Reader> readers_;
  Problems* problems_;
};

}  // namespace rota::cli
