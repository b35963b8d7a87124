#include "stream/stream_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/caught.hpp"
#include "core/failure.hpp"
#include "source/field_check.hpp"
#include "source/source_facts.hpp"

namespace rota::internal {
namespace {

std::string text_of(const StreamSource& source) {
  return fmt::format("{} shards of {}, and cursors of {} numbers", source.shards(), describe(source.fields()),
                     source.cursor_numbers());
}

}  // namespace

StreamFacts ask_facts(const StreamSource& source, std::string_view task) {
  StreamFacts facts{.fields = ask(task, "fields", [&] { return source.fields(); }),
                    .shards = ask(task, "shards", [&] { return source.shards(); }),
                    .cursor_numbers = ask(task, "cursor_numbers", [&] { return source.cursor_numbers(); })};
  check_fields(facts.fields, task, "the source");
  if (facts.shards >= 1 && facts.shards <= kMaxShards && facts.cursor_numbers >= 1 &&
      facts.cursor_numbers <= kMaxCursorNumbers) {
    return facts;
  }
  throw failure(ErrorCode::callback,
                "{}: the source says that it has {} shards, and cursors of {} numbers; its shards() must be "
                "1 to 2^24, its cursor_numbers() 1 to {}",
                task, facts.shards, facts.cursor_numbers, kMaxCursorNumbers);
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

std::shared_ptr<const StreamSource> instance_of(const StreamSource& source, const WorkerInfo& worker) {
  std::shared_ptr<const StreamSource> own = source.for_worker(worker);
  if (!own || (own->shards() == source.shards() && own->cursor_numbers() == source.cursor_numbers() &&
               own->fields() == source.fields())) {
    return own;
  }
  throw failure(ErrorCode::callback,
                "the source has {}; what its for_worker() makes has {}; let both have the same",
                text_of(source), text_of(*own));
}

void WorkerInstances::assign(std::vector<ShardId> shards) {
  if (shards == shards_) return;
  shards_ = std::move(shards);
  ++assignment_;
}

const StreamSource& WorkerInstances::source(std::size_t worker) {
  Own& own = own_[worker];
  if (own.made_for != assignment_) {
    own.source.reset();
    try {
      std::vector<ShardId> shards;
      for (std::size_t i = worker; i < shards_.size(); i += own_.size()) shards.push_back(shards_[i]);
      own.source = instance_of(source_, {.world = world_,
                                         .worker = static_cast<int>(worker),
                                         .workers = static_cast<int>(own_.size()),
                                         .shards = ShardList(std::move(shards))});
      own.made_for = assignment_;
    } catch (...) {
      throw caught().as_error(fmt::format("make a source for worker {} of {}", worker, own_.size()));
    }
  }
  return own.source ? *own.source : source_;
}

}  // namespace rota::internal
