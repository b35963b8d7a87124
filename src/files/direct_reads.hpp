#pragma once

// Reads past the page cache, many at once.

#include <memory>
#include <span>
#include <vector>

#include "core/mutex.hpp"
#include "files/reads.hpp"

namespace rota::internal {

/// Reads files past the page cache, by Linux's asynchronous I/O (io_submit(2)), which works where io_uring is
/// forbidden, too. Whole pages are read into memory of its own, and copied from there: 16 MiB or less for
/// each thread that reads at a time. What cannot be read so is read through the page cache. Any thread.
class DirectReads {
 public:
  DirectReads();
  ~DirectReads();
  DirectReads(const DirectReads&) = delete;
  DirectReads& operator=(const DirectReads&) = delete;

  /// As read_at_once.
  void read(std::span<const WantedBytes> wanted) const;

 private:
  class Queue;

  mutable Mutex mutex_;
  mutable std::vector<std::unique_ptr<Queue>> free_ ROTA_GUARDED_BY(mutex_);
};

}  // namespace rota::internal
