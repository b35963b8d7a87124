#pragma once

// Power losses, simulated: from the trace of what a program did to files, the directories that a disk could
// hold after the power went at some moment of it.
//
// What an fsync that had ended covers is there. Of all else each page of a file, in the version of any write
// to it since, each change of a size and each change of a name is there or not. Only a rename is atomic.
// Calls that overlap may have taken effect in any order, and those under way at that moment or not.

#include "trace.hpp"

namespace rota::test {

/// One call of the trace.
struct TraceEvent : RecordHeader {
  int process = 0;
  bool is_directory = false;  ///< what is opened or synced
  std::string path = {};
  std::string other = {};
  std::string data = {};
};

/// What all processes did, in the order in which the calls began.
using Trace = std::vector<TraceEvent>;

/// Reads what the interposed library recorded in `directory`.
Trace read_trace(const fs::path& directory);

/// Where in `trace` the fsyncs are: those of directories, or of files.
std::vector<std::size_t> syncs_in(const Trace& trace, bool of_directories);

/// The same trace without the calls at `places`.
Trace without(const Trace& trace, const std::vector<std::size_t>& places);

/// One more than the number of any begin or end of a call.
std::int64_t end_of(const Trace& trace);

/// The highest mark that was set before moment `cut`; -1 where there was none.
std::int64_t highest_mark(const Trace& trace, std::int64_t cut);

/// A moment of the trace, and which of all that can be left then: the same seed leaves the same.
struct PowerLoss {
  std::int64_t cut = 0;
  std::uint64_t seed = 0;
};

/// Makes below `target`, which must be empty, what is left of the directory `root` of the trace, which was
/// there before and empty.
void leave(const Trace& trace, const PowerLoss& loss, const fs::path& root, const fs::path& target);

}  // namespace rota::test
