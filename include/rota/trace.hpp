#pragma once

// Traces: records of the batches that each rank was given, for `rota audit`. docs/traces.md describes the
// format.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "rota/communicator.hpp"
#include "rota/loader.hpp"
#include "rota/stream_loader.hpp"
#include "rota/world.hpp"

namespace rota {

namespace internal {
class TraceLines;
}

/// Writes what one rank is given: a file for each phase and rank, a line for each batch.
///
/// A *phase* is a part of a run with one world, and one batch size or plan. Begin a writer after the restore,
/// and another one after `rescale`, `seek`, `replan`, `set_weights` or `set_global_batch_size`. Keep all
/// phases of a run in one directory, over all of its starts. A phase that goes back to a checkpoint undoes
/// the steps behind it.
///
/// When `write` returns, the operating system has the line. So a killed process loses at most the line that
/// it was writing, and `rota audit` ignores that one. A failed write throws, and may be tried again. Two
/// writers never share a file.
///
/// Of samples that are settled by hand, what is said of them is written, too, from whichever thread: when
/// `settle` returns, the system has its line, and where that cannot be written, `settle` throws Error{io} and
/// nothing is settled. Call `end` once none is out.
///
/// Of replicas, only number 0 writes; calls on the others do nothing. Move-only. *One thread.* After a move,
/// `write` and `end` throw Error{invalid_argument}; in a forked child, Error{unsupported}, for the file is
/// the parent's.
class TraceWriter {
 public:
  /// Creates the directory if need be, and this rank's file, which begins where the loader stands. `phase` is
  /// the same on all ranks and above earlier ones; without it, it is the one behind those in the names of the
  /// directory's files.
  /// **Collective** over `comm`, all ranks of the run with replicas: all throw the same. Throws
  /// Error{invalid_argument} for a phase below 0, Error{mismatch} unless all give the same phase or none,
  /// Error{io} where the file exists or cannot be created.
  TraceWriter(const Communicator& comm, const std::filesystem::path& directory, const Loader& loader,
              std::optional<std::int64_t> phase = {});
  TraceWriter(const Communicator& comm, const std::filesystem::path& directory, const StreamLoader& loader,
              std::optional<std::int64_t> phase = {});
  /// The same without communication. Also throws Error{invalid_argument} for a loader of several ranks
  /// without `phase`.
  TraceWriter(const std::filesystem::path& directory, const Loader& loader,
              std::optional<std::int64_t> phase = {});
  TraceWriter(const std::filesystem::path& directory, const StreamLoader& loader,
              std::optional<std::int64_t> phase = {});
  ~TraceWriter();
  TraceWriter(TraceWriter&& other) noexcept;
  TraceWriter& operator=(TraceWriter&& other) noexcept;

  /// Adds a batch of the loader; add empty ones, too. Steps before it that the plan leaves out are added as
  /// steps of skipped samples. Throws Error{io}, and Error{invalid_argument} after `end` or for the other
  /// kind of loader's batch.
  void write(const Batch& batch);

  /// Records that the phase ended in order, where the loader stands now, and closes the file. A phase without
  /// this line was killed, or still runs. Throws as `write` does. A failed close is not tried again.
  void end(const Loader& loader);
  void end(const StreamLoader& loader);

  /// The number of the phase.
  [[nodiscard]] std::int64_t phase() const noexcept { return phase_; }

 private:
  [[nodiscard]] bool may_write(bool is_stream) const;
  void write_line(const Batch& batch);
  std::optional<Position> write_left_out(std::int64_t end);
  void end(const Position& position);

  std::unique_ptr<internal::TraceLines, internal::DeleteWhereMade> lines_;  // null on replicas
  std::int64_t phase_ = 0;
  World world_;
  Split split_ = Split::by_sample;
  bool is_mixture_ = false;
  bool is_stream_ = false;
  std::int64_t next_step_ = 0;
  std::int64_t steps_ = 0;
  std::int64_t samples_ = 0;
};

}  // namespace rota
