#pragma once

// The table of a loader's statistics, by which all that shows them names them. Next: rota/stats.hpp.

#include <cstdint>
#include <string_view>
#include <variant>

#include "rota/stats.hpp"

namespace rota::internal {

/// A number that only grows, one that is as it is now, or times.
enum class StatisticKind { counter, gauge, summary };

struct Statistic {
  using Worker = LoaderStats::Worker;
  using Dataset = LoaderStats::Dataset;

  std::string_view name;  ///< of the member, and in Python
  StatisticKind kind;
  std::string_view unit;
  std::string_view help;
  std::variant<std::int64_t LoaderStats::*, Durations LoaderStats::*, std::int64_t Worker::*,
               Durations Worker::*, std::int64_t Dataset::*>
      of;

  /// "worker" or "dataset", where each has its own; else empty.
  [[nodiscard]] constexpr std::string_view label() const noexcept {
    return of.index() < 2 ? "" : of.index() < 4 ? "worker" : "dataset";
  }
};

/// All of LoaderStats, of its workers and datasets, but for `slowest`.
inline constexpr Statistic kStatistics[] = {
    {"batches", StatisticKind::counter, "batches", "given to the loop", &LoaderStats::batches},
    {"samples", StatisticKind::counter, "samples", "slots of these batches", &LoaderStats::samples},
    {"skipped", StatisticKind::counter, "samples", "slots of bad samples", &LoaderStats::skipped},
    {"bytes", StatisticKind::counter, "bytes", "of these batches", &LoaderStats::bytes},
    {"waits", StatisticKind::summary, "seconds", "that the loop waited for a batch", &LoaderStats::waits},
    {"steps", StatisticKind::summary, "seconds", "that the loop took between batches", &LoaderStats::steps},
    {"ready_batches", StatisticKind::gauge, "batches", "complete, now", &LoaderStats::ready_batches},
    {"retries", StatisticKind::counter, "reads", "tried again after an I/O error", &LoaderStats::retries},
    {"disk_bytes", StatisticKind::counter, "bytes", "brought from disks for this process",
     &LoaderStats::disk_bytes},
    {"fetched_files", StatisticKind::counter, "files", "brought into memory that the node shares",
     &LoaderStats::fetched_files},
    {"fetched_bytes", StatisticKind::counter, "bytes", "of these files", &LoaderStats::fetched_bytes},
    {"decodes", StatisticKind::counter, "decodes", "of chunks, by this process", &LoaderStats::decodes},
    {"chunks", StatisticKind::counter, "chunks", "that the samples read amount to", &LoaderStats::chunks},
    {"open", StatisticKind::gauge, "samples", "handed out and not settled, now", &LoaderStats::open},
    {"oldest_open", StatisticKind::gauge, "seconds", "that the oldest of these is out",
     &LoaderStats::oldest_open},
    {"given_up", StatisticKind::counter, "samples", "given up, to come again", &LoaderStats::given_up},
    {"dropped", StatisticKind::counter, "samples", "dropped, by any rank that is known",
     &LoaderStats::dropped},
    {"samples", StatisticKind::counter, "samples", "read by a worker", &LoaderStats::Worker::samples},
    {"bytes", StatisticKind::counter, "bytes", "of these samples", &LoaderStats::Worker::bytes},
    {"stored_bytes", StatisticKind::counter, "bytes", "read of a store by a worker",
     &LoaderStats::Worker::stored_bytes},
    {"reads", StatisticKind::summary, "seconds", "that a worker read for a batch",
     &LoaderStats::Worker::reads},
    {"transforms", StatisticKind::summary, "seconds", "that a worker transformed a batch",
     &LoaderStats::Worker::transforms},
    {"samples", StatisticKind::gauge, "samples", "of a dataset in the run so far, by all ranks",
     &LoaderStats::Dataset::samples},
    {"epochs", StatisticKind::gauge, "epochs", "of a dataset that are complete",
     &LoaderStats::Dataset::epochs},
    {"tokens", StatisticKind::gauge, "tokens", "of a dataset in the run so far, by its mean",
     &LoaderStats::Dataset::tokens},
};

}  // namespace rota::internal
