#pragma once

// What long work tells of itself. Next: catalog.hpp.

#include <cstdint>
#include <functional>
#include <string_view>

namespace rota {

/// How far a task has come, on the rank that is told.
struct Progress {
  std::string_view task;    ///< "list files", "index files", ...
  std::int64_t done = 0;    ///< files dealt with by this rank
  std::int64_t total = 0;   ///< files there are for it; 0: not known yet
  std::int64_t failed = 0;  ///< of those done
  double seconds = 0;       ///< since the task began
  bool is_over = false;     ///< the last call for this task
};

/// Called about ten times a second, and once at the end of a task, on the thread that called the function
/// which takes long. What it throws ends the task as an error.
using ProgressFunction = std::function<void(const Progress& progress)>;

}  // namespace rota
