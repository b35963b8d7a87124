#pragma once

// Traces of runs over streams: what each rank got, as one JSON-lines file per phase and rank. They are named
// like other traces, and their start records say what they are. Next: stream_audit.hpp.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/trace_lines.hpp"
#include "rota/stream_loader.hpp"

namespace rota::tracing {

/// The first record of a stream's trace file.
struct StreamTraceStart {
  std::int64_t phase = 0;
  World world = {};
  int workers = 0;
  std::int64_t shards = 0;           ///< L
  std::int64_t batch = 0;            ///< B
  Split split = Split::by_shard;     ///< by_sample where ranks share shards, as they may in a dispatch
  StreamPosition resumed_from = {};  ///< (0, 0) for a fresh start
};

/// What one rank had in one step.
struct StreamTraceBatch {
  StreamPosition start = {};
  std::vector<StreamId> ids = {};
  std::vector<std::int64_t> positions = {};  ///< of the samples in their shards' streams; as many as ids
  std::vector<std::uint64_t> digests = {};   ///< of their bytes; as many as ids
};

/// Writes one trace file, as TraceLineWriter does. Move-only; *one thread*.
class StreamTraceWriter {
 public:
  /// Creates the file in `dir`, which must exist, and writes the start record. Throws Error{io}, also where
  /// there is such a file already.
  StreamTraceWriter(const std::filesystem::path& dir, const StreamTraceStart& start);

  /// Adds the record of `batch`, which may be empty on this rank. Throws Error{io}.
  void write(const StreamBatch& batch);
  void write(const StreamTraceBatch& batch);
  /// Says that the run has ended at `end`: that `next` returned nothing. Throws Error{io}.
  void end(const StreamPosition& end);

 private:
  TraceLineWriter lines_;
  std::int64_t phase_ = 0;
  int rank_ = 0;
};

/// A stream's trace file being read. An unterminated last line is passed over; unknown events are, too. *One
/// thread.*
class StreamTraceFile {
 public:
  enum class Next { batch, damaged, end };

  /// Opens the file and reads its start record. Throws Error{io}.
  explicit StreamTraceFile(const std::filesystem::path& path);

  /// The start record; nothing where the file ends before it, or where it is damaged.
  [[nodiscard]] const std::optional<StreamTraceStart>& start() const noexcept { return start_; }
  /// What is wrong with the record read last, headed by file and line; empty where nothing is.
  [[nodiscard]] const std::string& damage() const noexcept { return damage_; }
  /// Where the run ended, once that record was read.
  [[nodiscard]] const std::optional<StreamPosition>& end() const noexcept { return end_; }

  /// Reads on to the next batch record, into `batch` (unspecified where the record is damaged).
  Next next(StreamTraceBatch& batch);

 private:
  TraceLineReader lines_;
  std::optional<StreamTraceStart> start_;
  std::optional<StreamPosition> end_;
  std::string damage_;
};

}  // namespace rota::tracing
