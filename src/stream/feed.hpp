#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "loader/batch_memory.hpp"
#include "rota/stream_loader.hpp"

namespace rota::internal {

/// What comes next for this rank: a batch, the end of an epoch, or an error.
struct FeedHead {
  enum class Kind : std::int64_t { batch, epoch_end, failed };
  Kind kind = Kind::batch;
  std::int64_t epoch = 0;
  std::int64_t ready = 1;  ///< batches of this epoch that are there, one behind the other, and cannot fail
};

/// Where one rank's batches come from, and how far they were taken. *One thread.*
class Feed {
 public:
  Feed() = default;
  virtual ~Feed() = default;
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;

  /// What comes next, if that is known by now.
  [[nodiscard]] virtual std::optional<FeedHead> peek() = 0;
  /// What comes next. Blocks. There is always something, until the end of the last epoch is taken. Throws
  /// what waiting for other ranks throws.
  [[nodiscard]] virtual FeedHead wait() = 0;
  /// Takes what comes next, and moves the place; nullptr where it is no batch. Rethrows an error, after
  /// which `wait` tries again.
  virtual std::unique_ptr<BatchMemory> take() = 0;

  /// Says whether all ranks know that none has anything on its way to another; see ranks::DeferredReduction.
  virtual void set_quiet(bool /*is_quiet*/) noexcept {}
  virtual void add_stats(LoaderStats& stats) const = 0;
};

}  // namespace rota::internal
