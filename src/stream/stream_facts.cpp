#include "stream/stream_facts.hpp"

#include <algorithm>

#include "order/shard_plan.hpp"
#include "source/field_check.hpp"
#include "source/source_facts.hpp"

namespace rota::internal {

StreamFacts ask_facts(const StreamSource& source, std::string_view task) {
  StreamFacts facts{.fields = ask(task, "fields", [&] { return source.fields(); }),
                    .shards = ask(task, "shards", [&] { return source.shards(); }),
                    .cursor_numbers = ask(task, "cursor_numbers", [&] { return source.cursor_numbers(); })};
  check_fields(facts.fields, task, "the source");
  if (facts.shards >= 1 && facts.shards <= kMaxShards && facts.cursor_numbers >= 1 &&
      facts.cursor_numbers <= kMaxCursorNumbers) {
    return facts;
  }
  throw Error(
      ErrorCode::callback,
      fmt::format(
          "{}: the source says that it has {} shards, and cursors of {} numbers; its shards() must be "
          "1 to 2^24, its cursor_numbers() 1 to {}",
          task, facts.shards, facts.cursor_numbers, kMaxCursorNumbers));
}

std::unique_ptr<ShardStream> ask_stream(const StreamSource& source, ShardId shard, std::int64_t epoch,
                                        const StreamCursor& cursor) {
  auto stream = source.open(shard, epoch, cursor);
  if (stream) return stream;
  throw Error(ErrorCode::callback, "open it: the source gave no stream (a null pointer)");
}

std::optional<std::int64_t> ask_remaining(const StreamSource& source, ShardId shard,
                                          const StreamCursor& cursor) {
  const auto samples = source.remaining(shard, cursor);
  return samples ? std::optional(std::clamp<std::int64_t>(*samples, 0, kMaxCount)) : std::nullopt;
}

}  // namespace rota::internal
