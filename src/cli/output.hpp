#pragma once

// The output of a program: what was printed has arrived, or the program fails.

#include <functional>

namespace rota::cli {

/// Runs `program` and returns its exit code. An exception is printed to stderr, on one line, and the code is
/// then 1; so it is where not all of stdout could be written. Where nobody reads stdout any more, it is 128 +
/// SIGPIPE, and nothing is said: what a shell shows of a program that the signal has ended.
///
/// Standard streams that are closed are opened anew, such that every use of them fails: else the first file
/// that the program opens would take their place, and what is printed would go into it.
int run_with_output(const std::function<int()>& program);

/// Shows what was printed so far, before something that takes its time. Throws std::system_error, of which
/// run_with_output says that output is lost.
void flush_output();

}  // namespace rota::cli
