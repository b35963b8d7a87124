#pragma once

// Reading traces back, record by record.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rota/batch.hpp"
#include "rota/stream.hpp"
#include "rota/types.hpp"
#include "rota/world.hpp"

namespace rota::trace {

/// Numbers in a trace are no greater, so that sums of two do not overflow.
inline constexpr std::int64_t kMaxTraced = std::int64_t{1} << 61;

/// A sample, by what it is called when it is settled. Ids of a mixture are of all its datasets.
struct TraceName {
  std::int64_t epoch = 0;
  std::int64_t id = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): the zero that it sees is the compiler's
  friend auto operator<=>(const TraceName&, const TraceName&) = default;
};

/// The first record of a trace file.
struct TraceStart {
  std::int64_t phase = 0;
  World world = {};
  int workers = 0;
  std::int64_t batch = 0;  ///< B, the global batch size where the phase begins
  /// Of a run with a plan: from which steps on it is another.
  std::vector<std::pair<std::int64_t, std::int64_t>> batches = {};
  Split split = Split::by_sample;  ///< of ranks
  Tail tail = Tail::partial;       ///< not of a stream
  Position from = {};              ///< where the phase begins
  std::string fingerprint;
  std::vector<std::int64_t> samples = {};  ///< N of each dataset; empty of a stream
  std::string plan = {};                   ///< its digest, if there is one
  std::vector<double> tokens = {};         ///< of a sample of each dataset, if the plan says so
  std::uint64_t course = 0;                ///< of a mixture that changes: a digest of what its batches go by
  std::vector<std::string> names = {};     ///< of datasets that come and go, by number
  std::int64_t shards = 0;                 ///< L of a stream
  bool is_by_hand = false;                 ///< what is handed out counts once it is settled
  bool changes_by_epoch = false;           ///< a sample has other bytes in another epoch
  std::vector<TraceName> open = {};        ///< on this rank, when the phase began

  [[nodiscard]] std::int64_t batch_at(std::int64_t step) const noexcept;
  [[nodiscard]] bool is_stream() const noexcept { return samples.empty(); }
  [[nodiscard]] bool is_mixture() const noexcept { return samples.size() > 1 || !names.empty(); }
  /// N; of a mixture or a stream, whose positions tell no epochs, more than will ever be.
  [[nodiscard]] std::int64_t epoch_samples() const noexcept {
    return samples.size() == 1 && names.empty() ? samples.front() : kMaxTraced;
  }
  /// Where a global batch starts when all before `at` was delivered: in the next epoch where the tail leaves
  /// nothing of this one.
  [[nodiscard]] Position settled(const Position& at) const noexcept;
  /// Whether a global batch, or a phase, may start there when all before `at` was delivered. Of a stream,
  /// nobody knows that an epoch is over before the next batch is.
  [[nodiscard]] bool follows(const Position& start, const Position& at) const noexcept;
  /// Slots of a global batch that starts at `at`, unless it is the last; 0 where none may.
  [[nodiscard]] std::int64_t slots_at(const Position& at) const noexcept;
  /// Whether both are of one run, whatever its worlds and batches were. Of datasets with names one may have
  /// more.
  [[nodiscard]] bool is_same_run(const TraceStart& other) const noexcept;
  /// Whether both are of one phase, whatever their ranks and workers.
  [[nodiscard]] bool is_same_phase(const TraceStart& other) const noexcept;
};

/// One sample, in the slot that a record says.
struct TraceSlot {
  std::int64_t set = 0;     ///< its dataset; of a stream, its shard
  std::int64_t id = 0;      ///< of a stream, its input
  std::int64_t output = 0;  ///< of a stream
  std::int64_t slot = 0;    ///< of the global batch; of a stream, its position in its shard's stream
  std::int64_t epoch = 0;
  SlotKind kind = SlotKind::sample;
  std::uint64_t digest = 0;
  bool is_left_out = false;  ///< nobody read it

  /// Whether its digest is that of the sample.
  [[nodiscard]] bool has_bytes() const noexcept { return kind != SlotKind::skipped && !is_left_out; }
};

/// One rank's slice of one global batch, as its record says.
struct TraceBatch {
  Position start;      ///< where the global batch starts
  std::int64_t n = 0;  ///< slots of the global batch; 0 of a stream
  std::vector<TraceSlot> slots;
  double at = -1;         ///< when the loop had it, in seconds since 1970; -1: nobody wrote times
  BatchTimes times;       ///< 0 where nobody wrote them
  BatchCosts costs = {};  ///< and these
};

/// What a record says of samples that were handed out before.
struct TraceFate {
  enum class Kind { settled, dropped, again } kind = Kind::settled;
  std::vector<TraceName> names = {};  ///< that are settled or dropped
  std::vector<TraceSlot> slots = {};  ///< that come again
};

/// The number of its dataset, by id; of a stream, its shard.
std::int64_t set_of(const TraceStart& start, const TraceSlot& slot);
/// The epoch of a slot of a global batch that starts at `at`: that of its position; of a mixture, whose
/// datasets have their own, the one that its record says.
std::int64_t epoch_of(const TraceStart& start, const Position& at, const TraceSlot& slot);
/// Whether the slots are what `rank` reads of `n`: an equal part, unless ranks read whole shards.
bool is_share(const TraceStart& start, int rank, std::int64_t n, const std::vector<TraceSlot>& slots);
/// "sample 17"; of a stream, "shard:input:output".
std::string name_of(const TraceStart& start, const TraceSlot& slot);

/// The name of the file of `phase` and `rank`; names sort by phase, then rank.
std::string trace_file_name(std::int64_t phase, int rank);

/// The trace files (`*.jsonl`) in `dir`, sorted by name. Throws Error{not_found}, Error{io}.
std::vector<std::filesystem::path> trace_files(const std::filesystem::path& dir);

/// The highest phase in directory `dir`, by names of files; -1 where there is none.
/// Throws Error{not_found}, Error{io}.
std::int64_t highest_phase(const std::filesystem::path& dir);

/// A trace file being read. An unterminated last line is passed over; unknown events are, too. *One thread.*
class TraceFile {
 public:
  /// Opens the file and reads its start record. Throws Error{io}.
  explicit TraceFile(const std::filesystem::path& path);

  /// The start record; nothing where the file ends before it, or where it is damaged.
  [[nodiscard]] const std::optional<TraceStart>& start() const noexcept { return start_; }
  /// Where the loader stood at the end, once the end record was read.
  [[nodiscard]] const std::optional<Position>& end() const noexcept { return end_; }
  /// What is wrong with the start record, or with records that the last `next` passed over: file, line, why.
  [[nodiscard]] const std::vector<std::string>& damage() const noexcept { return damage_; }

  /// What records say that the last `next` came by.
  [[nodiscard]] const std::vector<TraceFate>& fates() const noexcept { return fates_; }

  /// Where there is a start record, reads on to the next sound batch record, into `batch`; false where there
  /// is none.
  bool next(TraceBatch& batch);

 private:
  bool read_line();  // false at the end
  void add_damage(const std::exception& damage);
  bool take(TraceBatch& batch);  // the line; false where it is no step
  void check_end(std::int64_t batches, std::int64_t slots) const;

  std::filesystem::path path_;
  std::ifstream stream_;
  std::string line_;
  std::int64_t line_number_ = 0;
  std::optional<TraceStart> start_;
  std::optional<Position> end_;
  std::vector<std::string> damage_;
  std::vector<TraceFate> fates_;
  std::int64_t next_step_ = 0;  // behind what was read so far:
  std::int64_t batches_ = 0;
  std::int64_t slots_ = 0;
};

}  // namespace rota::trace
