#pragma once

// What a stream source says of itself: asked once, and checked before anything is reckoned with it.

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

}  // namespace rota::internal
