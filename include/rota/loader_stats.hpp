#pragma once

// What loaders have done: counts, and where time went. Next: loader.hpp.

#include <cstdint>
#include <vector>

#include "rota/source.hpp"

namespace rota {

/// What one worker thread has done.
struct WorkerStats {
  std::int64_t samples = 0;
  std::int64_t bytes = 0;
  double read_seconds = 0;  ///< in Source::read and the transform
};

/// What a loader has done since it was made.
struct LoaderStats {
  std::int64_t batches = 0;        ///< handed out
  std::int64_t samples = 0;        ///< slots in them
  std::int64_t skipped = 0;        ///< those of Mark::skipped
  std::int64_t bytes = 0;          ///< of their tensors
  double wait_seconds = 0;         ///< in which next() had to wait for data
  std::int64_t ready_batches = 0;  ///< complete and waiting to be handed out, now
  std::int64_t retries = 0;        ///< reads that were done again after an I/O error
  Fetched fetched = {};            ///< by this rank into memory that its node shares (Source::is_shared)
  std::vector<WorkerStats> workers = {};
};

}  // namespace rota
