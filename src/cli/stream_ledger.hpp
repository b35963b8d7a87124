#pragma once

// What was delivered of each shard's stream, epoch by epoch. Next: audit.hpp.

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "cli/problems.hpp"
#include "trace/trace_file.hpp"

namespace rota::trace {

/// A sample at its place in its shard's stream.
struct StreamEntry {
  std::int64_t input = -1;  ///< -1: there is none
  std::int64_t output = 0;
  std::uint64_t digest = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): the zero that it sees is the compiler's
  friend auto operator<=>(const StreamEntry&, const StreamEntry&) = default;
};

/// Ticks off the samples of each shard and epoch: 24 bytes a sample. *One thread.*
class StreamLedger {
 public:
  using Key = std::pair<std::int64_t, std::int64_t>;  // epoch, shard
  using Shards = std::map<Key, std::vector<StreamEntry>>;

  StreamLedger(std::int64_t shards, Problems& problems) : shards_(shards), problems_(&problems) {}

  /// Samples that were delivered in `phase` by `rank`. Where they were rolled back they are only compared
  /// with what was delivered in their place.
  void add(std::int64_t phase, int rank, const TraceBatch& batch, bool is_rolled_back);
  /// Adds what can be said when all is there.
  void close();

  [[nodiscard]] Shards take_shards() noexcept { return std::move(entries_); }
  /// Samples of an epoch.
  [[nodiscard]] std::int64_t samples(std::int64_t epoch) const;
  /// Of each epoch of which there are any, or were to be.
  [[nodiscard]] std::map<std::int64_t, std::int64_t> samples_by_epoch() const;

 private:
  struct RolledBack {
    Key key;
    std::int64_t position;
    StreamEntry entry;
    std::int64_t phase;
    int rank;
  };
  void place(const Key& key, std::int64_t position, const StreamEntry& entry, Problem problem);
  void compare(const RolledBack& other);
  void find_twins(const Key& key, std::vector<StreamEntry> entries);

  std::int64_t shards_;
  Problems* problems_;
  Shards entries_;
  std::vector<RolledBack> rolled_back_;
};

}  // namespace rota::trace
