#pragma once

// What a stream source says of itself, asked once and checked before anything is reckoned with it; and the
// instances of it that workers have for themselves.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "rota/stream.hpp"

namespace rota::internal {

/// The most numbers of a cursor.
inline constexpr std::int64_t kMaxCursorNumbers = 65'536;

struct StreamFacts {
  std::vector<Field> fields;
  std::int64_t shards = 0;
  std::int64_t cursor_numbers = 0;
};

/// Throws what the source throws, as an Error, and Error{callback} for fields, shards or cursors that cannot
/// be. `task` begins each message.
StreamFacts ask_facts(const StreamSource& source, std::string_view task);

/// StreamSource::open. Throws what that throws, and Error{callback} for no stream.
std::unique_ptr<ShardStream> ask_stream(const StreamSource& source, ShardId shard, std::int64_t epoch,
                                        const StreamCursor& cursor);

/// StreamSource::remaining, as a number from 0 to kMaxCount; nothing where it is not known.
std::optional<std::int64_t> ask_remaining(const StreamSource& source, ShardId shard,
                                          const StreamCursor& cursor);

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

  const StreamSource& source_;
  World world_;
  std::vector<ShardId> shards_;
  std::int64_t assignment_ = 0;  // how often they have changed
  std::vector<Own> own_;
};

}  // namespace rota::internal
