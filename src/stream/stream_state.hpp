#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "rota/stream_loader.hpp"
#include "stream/stream_facts.hpp"

namespace rota::internal {

class DispatchFeed;
class ShardFeed;

/// How far a run over streams has come; the same on all ranks.
struct StreamRun {
  StreamPosition position;
  std::int64_t epoch_began = 0;  // at this step
};

/// How the loader's state is saved and restored.
class StreamState {
 public:
  [[nodiscard]] static const StreamRun& run(const StreamLoader& loader);
  /// What its source said when the loader was made.
  [[nodiscard]] static const StreamFacts& facts(const StreamLoader& loader);
  /// What it is fed by, one of the two; null for the other.
  [[nodiscard]] static ShardFeed* shards(const StreamLoader& loader);
  [[nodiscard]] static DispatchFeed* dispatch(const StreamLoader& loader);
  /// **Collective.** What `make` makes on each rank, in order of rank, on every rank. Throws on all ranks
  /// what it throws on one, Error{timeout}, and Error{out_of_range} from 2 GiB on.
  [[nodiscard]] static std::vector<std::string> gather(const StreamLoader& loader,
                                                       const std::function<std::string()>& make);
  /// Goes on from `run`, once its feed has. All ranks do so at the same step.
  static void restart(StreamLoader& loader, const StreamRun& run);
};

}  // namespace rota::internal
