#pragma once

// The programs in the driver. Each is run by all ranks, with its arguments and the report of its rank.

#include <string>
#include <vector>

#include "report.hpp"
#include "rota/checkpoint_directory.hpp"
#include "rota/mpi.hpp"

namespace rota::test {

using Arguments = std::vector<std::string>;

inline rota::Writer writer_of(const std::string& name) {
  return name == "collective" ? rota::Writer::collective : rota::Writer::direct;
}

/// cycle REPORT DIRECTORY WRITER VICTIM DELAY_MS start|first: restores, says `restored STEP DIFFERENCE`, and
/// saves on, saying `saved STEP`, until rank VICTIM (all: every rank) kills itself, so long after the start
/// or the first save.
void run_cycle(const rota::mpi::Session& session, const Report& report, const Arguments& arguments);

/// phases REPORT CASES: see stalls.hpp.
void run_phases(const rota::mpi::Session& session, const Report& report, const Arguments& arguments);

/// disk REPORT DIRECTORY WRITER sync|async: saves to a file system of its own that is full in between.
void run_disk(const rota::mpi::Session& session, const Report& report, const Arguments& arguments);

/// many REPORT DIRECTORY WRITER world|line|grid FIRST COUNT: saves, and compares all of each on every rank.
void run_many(const rota::mpi::Session& session, const Report& report, const Arguments& arguments);

/// large REPORT DIRECTORY WRITER save|restore one|many|moved: a tensor of more than 2^31 elements in one row,
/// in many, or in many that one rank holds and two write.
void run_large(const rota::mpi::Session& session, const Report& report, const Arguments& arguments);

}  // namespace rota::test
