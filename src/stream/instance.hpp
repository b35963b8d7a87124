#pragma once

// The instances of stream sources that a worker has for itself.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "rota/stream.hpp"

namespace rota::internal {

/// What `source` makes for a worker alone; null where it makes nothing. Throws what it throws, and
/// Error{callback} for an instance that has other fields, shards or cursors.
std::shared_ptr<const StreamSource> instance_of(const StreamSource& source, const WorkerInfo& worker);

/// What the workers of a rank open shards with: each what is its own, if anything. One thread for each
/// worker.
class WorkerInstances {
 public:
  /// `source` must outlive it.
  WorkerInstances(const StreamSource& source, World world, std::size_t workers)
      : source_(source), world_(world), own_(workers) {}

  /// From here on worker w reads shards w, w + W, ... of these. No stream may be open.
  void assign(std::vector<ShardId> shards);
  /// That of `worker`, in whose thread it is made before it is first asked for, and again where shards have
  /// changed. Throws what that throws, as an Error that names the worker.
  const StreamSource& source(std::size_t worker);
  void end(std::size_t worker) noexcept { own_[worker].source.reset(); }

 private:
  struct Own {
    std::shared_ptr<const StreamSource> source;  // null: that of all
    std::int64_t made_for = -1;                  // this assignment
  };
  [[nodiscard]] WorkerInfo describe(std::size_t worker) const;

  const StreamSource& source_;
  World world_;
  std::vector<ShardId> shards_;
  std::int64_t assignment_ = 0;  // how often they have changed
  std::vector<Own> own_;
};

}  // namespace rota::internal
