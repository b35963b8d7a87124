#pragma once

// What an audit finds wrong. Next: audit.hpp.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace rota::cli {

/// Which promise is broken.
enum class ProblemKind {
  format,      ///< a file or record that is no trace
  files,       ///< a rank without a file, or with two
  start,       ///< start records that contradict each other or what was asked for
  lockstep,    ///< ranks that did not take the same steps
  slices,      ///< a rank whose slice is not its equal share
  owner,       ///< a shard of a stream that two ranks had at a time
  size,        ///< a global batch of the wrong size
  gap,         ///< a global batch, or a phase, that does not start where the one before ended
  repeated,    ///< a sample delivered twice in an epoch
  missing,     ///< a sample not delivered in an epoch
  range,       ///< a sample or place that does not exist
  padding,     ///< padding where there should be none, or none where there should be
  content,     ///< a sample with different bytes at different times
  order,       ///< a batch that was rolled back and came out differently when run again
  unfinished,  ///< a run that was to be complete and is not
  difference,  ///< another sequence of global batches than that of the trace compared with
};

/// One thing that is wrong, and where. Others of the same kind, phase and rank are counted with the first.
struct Problem {
  ProblemKind kind = ProblemKind::format;
  std::int64_t phase = -1;  ///< -1: none in particular
  int rank = -1;            ///< -1: none in particular
  std::string where = {};   ///< where the global batch starts
  std::string text;
  std::int64_t count = 1;
};

/// "lockstep: phase 1, rank 2, epoch 0, sample 64, step 4: the other ranks have no batch here".
std::string to_string(const Problem& problem);

/// Collects problems, those of one kind, phase and rank as one. *One thread.*
class Problems {
 public:
  void add(Problem problem);
  [[nodiscard]] const std::vector<Problem>& all() const noexcept { return problems_; }
  [[nodiscard]] std::vector<Problem> take() { return std::move(problems_); }

 private:
  std::vector<Problem> problems_;
};

}  // namespace rota::cli
