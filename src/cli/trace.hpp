#pragma once

// Traces: what a run delivered, as one JSON-lines file per phase and rank. A phase is one start of the
// program; the start record tells where it began, each batch record what this rank got. Next:
// trace_reader.hpp.

#include <compare>
#include <cstdint>
#include <filesystem>
#include <string>

#include "cli/trace_lines.hpp"
#include "rota/batch.hpp"
#include "rota/types.hpp"
#include "rota/world.hpp"

namespace rota::tracing {

/// A place in the run's order: an epoch, and the samples of it that are consumed.
struct Place {
  std::int64_t epoch = 0;
  std::int64_t consumed = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): the zero that it sees is the compiler's
  friend auto operator<=>(const Place&, const Place&) = default;
};

/// "epoch 1, sample 640".
std::string to_string(const Place& place);

/// The first record of a trace file.
struct TraceStart {
  std::int64_t phase = 0;
  World world;
  int workers = 0;
  std::int64_t samples = 0;  ///< N
  std::int64_t batch = 0;    ///< B, the global batch size of this phase
  Tail tail = Tail::partial;
  Split split = Split::by_sample;  ///< of ranks
  Place resumed_from;              ///< (0, 0) for a fresh start
};

/// The last record of a phase that ended in order. Readers of other programs may ignore it.
struct TraceEnd {
  std::int64_t steps = 0;    ///< of this phase
  std::int64_t samples = 0;  ///< slots of this rank
  double restore_seconds = 0;
  double save_seconds = 0;  ///< of the last save
};

/// The name of the file of `phase` and `rank`; names sort by phase, then rank.
std::string trace_file_name(std::int64_t phase, int rank);

/// XXH3-64 of the bytes of sample `i` of `batch`, all its fields in declared order.
std::uint64_t sample_digest(const Batch& batch, std::int64_t i);

/// Writes one trace file, as TraceLineWriter does. Move-only; *one thread*.
class TraceWriter {
 public:
  /// Creates the file in `dir`, which must exist, and writes the start record. Throws Error{io}, also where
  /// there is such a file already.
  TraceWriter(const std::filesystem::path& dir, const TraceStart& start);

  /// Adds the record of `batch`, which may be empty on this rank. Throws Error{io}.
  void write(const Batch& batch);
  /// Adds the end record. Throws Error{io}.
  void end(const TraceEnd& summary);

 private:
  TraceLineWriter lines_;
  std::int64_t phase_ = 0;
  int rank_ = 0;
  bool tells_slots_ = false;  // which are not an equal share
};

}  // namespace rota::tracing
