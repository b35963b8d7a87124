#pragma once

// What rota has to tell beside errors: that a read takes long, or how far a task is. Next: error.hpp.

#include <cstdint>
#include <functional>
#include <string_view>

namespace rota {

/// Takes one line, without its end. *Any thread*; must not throw.
using MessageSink = std::function<void(std::string_view message)>;

/// Where messages of this process go from now on. Empty: to stderr, headed by "rota: ", as at the start.
/// *Any thread*; a message that is under way may still go where it went before.
void set_message_sink(MessageSink sink);

/// The progress of a task on this rank.
struct Progress {
  std::string_view task;            ///< "list files", "index files", ...
  std::int64_t done = 0;            ///< by this rank, in units
  std::int64_t total = 0;           ///< of this rank; 0: not known yet
  double seconds = 0;               ///< since the task began
  bool is_over = false;             ///< the last call for this task
  std::string_view unit = "files";  ///< what is counted; "shards" where these are written
};

/// Called about ten times a second, and once at the end of a task, on the thread that called the long
/// function. If it throws, the task fails with that error.
using ProgressFunction = std::function<void(const Progress& progress)>;

}  // namespace rota
