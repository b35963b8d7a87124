#pragma once

// Reading traces back, record by record. Next: steps.hpp, which puts the ranks of a phase together.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/trace.hpp"

namespace rota::tracing {

/// One rank's slice of one global batch, as its record says.
struct TraceBatch {
  Place place;         ///< where the global batch starts
  std::int64_t n = 0;  ///< slots of the global batch
  std::vector<std::int64_t> ids;
  std::vector<std::uint64_t> digests;  ///< as many as ids
  std::vector<Mark> marks;             ///< as many as ids
  std::vector<std::int64_t> slots;     ///< of the global batch, as many as ids
};

/// The trace files (`*.jsonl`) in `dir`, sorted by name. Throws Error{not_found}, Error{io}.
std::vector<std::filesystem::path> trace_files(const std::filesystem::path& dir);

/// The highest phase that directory `dir` knows, by file names or by start records; -1 where there is none or
/// no directory. Throws Error{io} where the directory cannot be read.
std::int64_t highest_phase(const std::filesystem::path& dir);

/// The phase in a file name made by `trace_file_name`; -1 for any other name.
std::int64_t phase_in_name(const std::filesystem::path& path);

/// A trace file being read. An unterminated last line is passed over; unknown events are, too. *One thread.*
class TraceFile {
 public:
  enum class Next { batch, damaged, end };

  /// Opens the file and reads its start record. Throws Error{io}.
  explicit TraceFile(const std::filesystem::path& path);

  /// The start record; nothing where the file ends before it, or where it is damaged.
  [[nodiscard]] const std::optional<TraceStart>& start() const noexcept { return start_; }
  /// What is wrong with the record read last, headed by file and line; empty where nothing is.
  [[nodiscard]] const std::string& damage() const noexcept { return damage_; }
  /// The end record, once it was read.
  [[nodiscard]] const std::optional<TraceEnd>& end() const noexcept { return end_; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return lines_.path(); }

  /// Where there is a start record, reads on to the next batch record, into `batch` (unspecified where the
  /// record is damaged).
  Next next(TraceBatch& batch);

 private:
  TraceLineReader lines_;
  std::optional<TraceStart> start_;
  std::optional<TraceEnd> end_;
  std::string damage_;
};

}  // namespace rota::tracing
