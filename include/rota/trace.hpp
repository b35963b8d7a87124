#pragma once

// Traces: what a run says that its ranks were handed, for `rota audit` to judge. docs/traces.md is the
// format.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "rota/loader.hpp"
#include "rota/mpi.hpp"
#include "rota/stream_loader.hpp"

namespace rota {

namespace trace {
class LineWriter;
}

/// Which files a trace is written to.
struct TraceOptions {
  /// The number of this phase, the same on all ranks and above those before. Nothing: the next that the
  /// directory does not have, which rank 0 looks up.
  std::optional<std::int64_t> phase = std::nullopt;
};

/// Writes what one rank is handed: a file for each phase and rank, a line for each batch.
///
/// A *phase* is one stretch of a run with one world and one batch size. Begin a writer after the restore, and
/// another one after `rescale`, `seek` or `set_global_batch_size`. All phases of a run, however many times it
/// was started, are in one directory. A phase that goes back to a checkpoint undoes the steps behind it.
///
/// Each line is in the operating system's hands when `write` returns. So a killed process loses at most the
/// line it was writing, which `rota audit` passes over. A write that fails throws, and may be tried again. A
/// file is never written to by two writers.
///
/// Of replicas, number 0 alone writes; calls on the others do nothing. Move-only. *One thread.*
class TraceWriter {
 public:
  /// Creates the directory, if need be, and this rank's file in it, which begins where the loader stands.
  /// **Collective** over `comm`, the ranks of the run, replicas included: all throw the same. Throws
  /// Error{invalid_argument} for a phase below 0, Error{io} where the file cannot be created, or is there.
  TraceWriter(const mpi::Communicator& comm, const std::filesystem::path& directory, const Loader& loader,
              const TraceOptions& options = {});
  TraceWriter(const mpi::Communicator& comm, const std::filesystem::path& directory,
              const StreamLoader& loader, const TraceOptions& options = {});
  /// The same without communication. Throws besides Error{invalid_argument} for a loader of several ranks
  /// without `options.phase`.
  TraceWriter(const std::filesystem::path& directory, const Loader& loader, const TraceOptions& options = {});
  TraceWriter(const std::filesystem::path& directory, const StreamLoader& loader,
              const TraceOptions& options = {});
  ~TraceWriter();
  TraceWriter(TraceWriter&& other) noexcept;
  TraceWriter& operator=(TraceWriter&& other) noexcept;

  /// Adds a batch of the loader, an empty one, too. Throws Error{io}, Error{invalid_argument} after `end` and
  /// for a batch of the other kind of loader.
  void write(const Batch& batch);
  void write(const StreamBatch& batch);

  /// Says that the phase ended in order, where the loader stands now, and closes the file. A phase without
  /// this line was killed, or still runs. Throws as `write` does; a close that fails is not tried
  /// again.
  void end(const Loader& loader);
  void end(const StreamLoader& loader);

  /// The number of the phase.
  [[nodiscard]] std::int64_t phase() const noexcept { return phase_; }

 private:
  void add(const std::string& line, std::int64_t samples);
  void require_open(bool is_stream) const;
  void end(const Position& position);

  std::unique_ptr<trace::LineWriter> lines_;  // null on replicas
  std::int64_t phase_ = 0;
  World world_;
  Split split_ = Split::by_sample;
  bool is_mixture_ = false;
  bool is_stream_ = false;
  std::int64_t steps_ = 0;
  std::int64_t samples_ = 0;
};

}  // namespace rota
