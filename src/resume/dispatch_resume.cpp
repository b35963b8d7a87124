#include "resume/dispatch_resume.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "stream/dispatch_feed.hpp"
#include "stream/stream_state.hpp"

namespace rota::internal {
namespace {

/// A shard's row of the cursors.
struct ShardRow {
  std::int64_t epoch = 0;
  std::int64_t delivered = 0;
  std::int64_t pending = 0;
  std::int64_t bytes = 0;  // of those that are pending
};
/// A pending item's row; they lie in this order.
struct ItemRow {
  std::int64_t epoch = 0;
  std::int64_t shard = 0;
  std::int64_t position = 0;
  std::int64_t bytes = 0;
};

constexpr std::string_view kCursors = "cursors";
constexpr std::string_view kPending = "pending";
constexpr std::string_view kItems = "items";
constexpr std::int64_t kDispatchColumns = 4;
static_assert(sizeof(ShardRow) == 8 * kDispatchColumns && sizeof(ItemRow) == 8 * kDispatchColumns);

// Adds the rows of this rank, which is rank 0, to the tensors of cursors, pending items and their bytes.
void add_rows(const StreamLoader& loader, const PendingItems& pending, std::vector<TensorPart>& tensors) {
  const DispatchFeed& feed = *StreamState::dispatch(loader);
  const DispatchPlan& plan = feed.plan();
  std::vector<ShardRow> shards;
  for (std::int64_t s = 0; s < plan.shards; ++s) {
    shards.push_back({.epoch = loader.position().epoch, .delivered = plan.count_of({s}, feed.delivered())});
  }
  std::vector<PendingItems::Item> items = pending.items();
  std::ranges::sort(items, {}, [&](const PendingItems::Item& item) {
    return std::tuple(plan.shard_of(item.number), item.epoch, item.number);
  });
  for (const PendingItems::Item& item : items) {
    const ByteSpan bytes = pending.bytes(item);
    const ItemRow row{.epoch = item.epoch,
                      .shard = plan.shard_of(item.number).value,
                      .position = plan.position_of(item.number),
                      .bytes = std::ssize(bytes)};
    tensors[1].append(std::as_bytes(std::span(&row, 1)));
    tensors[2].append(bytes);
    ShardRow& shard = shards[static_cast<std::size_t>(row.shard)];
    ++shard.pending;
    shard.bytes += row.bytes;
  }
  tensors[0].append(std::as_bytes(std::span(shards)));
}

/// A dispatch as it was saved. All of it is checked before anything is moved.
class SavedDispatch {
 public:
  /// Throws Error{mismatch} where it is of another source than `loader`'s, Error{corrupt}.
  SavedDispatch(const SavedStream& saved, const StreamLoader& loader);

  [[nodiscard]] const StreamRun& run() const noexcept { return head_.run; }
  [[nodiscard]] DispatchStart start_at(int rank) const;

 private:
  void read_head();
  void require_sound() const;
  [[nodiscard]] PendingItems read_pending() const;

  const SavedStream& saved_;
  DispatchPlan plan_;
  const RecordLayout& layout_;
  StreamHead head_;
  std::int64_t delivered_ = 0;
  SourceProgress source_;
};

SavedDispatch::SavedDispatch(const SavedStream& saved, const StreamLoader& loader)
    : saved_(saved),
      plan_(StreamState::dispatch(loader)->plan()),
      layout_(StreamState::dispatch(loader)->layout()),
      head_(saved.head()) {
  saved.require_same_source(loader);
  read_head();
  require_sound();
}

void SavedDispatch::read_head() {
  const StateObject state = saved_.state();
  const StateObject read = state.object("read");
  delivered_ = state.number("delivered");
  source_ = {.epoch = read.number("epoch"),
             .shard = {.shard = {},
                       .is_done = read.number("is_done") != 0,
                       .position = read.number("position"),
                       .skip = read.number("skip"),
                       .cursor = {.numbers = read.any_numbers("numbers"), .blob = read.bytes("blob")}}};
}

// Where it is, and what each shard's cursor says, must agree.
void SavedDispatch::require_sound() const {
  const auto rows = saved_.rows<ShardRow>(kCursors);
  const std::int64_t epoch = head_.run.position.epoch;
  const ShardProgress& source = source_.shard;
  const auto numbers = std::ssize(source.cursor.numbers);
  bool is_sound = std::ssize(rows) == head_.shards && source_.epoch >= epoch &&
                  source.position >= source.skip &&
                  numbers == (source.cursor.is_start() ? 0 : head_.cursor_numbers);
  for (std::int64_t s = 0; s < std::ssize(rows) && is_sound; ++s) {
    const ShardRow& row = rows[static_cast<std::size_t>(s)];
    is_sound = row.epoch == epoch && row.pending >= 0 && row.bytes >= 0 &&
               row.delivered == plan_.count_of({s}, delivered_);
  }
  if (is_sound) return;
  saved_.refusal().fail(
      fmt::format("its cursors cannot be those of epoch {}, step {}", epoch, head_.run.position.step));
}

// They are dealt to shards in turn, so that with their numbers their order is back.
PendingItems SavedDispatch::read_pending() const {
  std::vector<std::byte> bytes(static_cast<std::size_t>(saved_.bytes(kItems)));
  saved_.read(kItems, 0, bytes);
  std::vector<PendingItems::Item> items;
  std::size_t at = 0;
  for (const ItemRow& row : saved_.rows<ItemRow>(kPending)) {
    const bool fits = row.shard >= 0 && row.shard < head_.shards && row.position >= 0 && row.bytes >= 0 &&
                      row.bytes <= std::ssize(bytes) - static_cast<std::int64_t>(at) &&
                      row.position < kMaxCount / head_.shards;
    if (!fits) saved_.refusal().fail(fmt::format("pending item {} cannot be one", items.size()));
    items.push_back({.epoch = row.epoch,
                     .number = row.position * head_.shards + row.shard,
                     .begin = at,
                     .size = static_cast<std::size_t>(row.bytes)});
    at += static_cast<std::size_t>(row.bytes);
  }
  std::ranges::sort(items, {},
                    [](const PendingItems::Item& item) { return std::pair(item.epoch, item.number); });
  PendingItems pending;
  for (const auto& item : items) {
    const ByteSpan record = ByteSpan(bytes).subspan(item.begin, item.size);
    if (layout_.first(record).size() != record.size()) saved_.refusal().fail("a pending item is too long");
    pending.add(item.epoch, item.number, record);
  }
  return pending;
}

DispatchStart SavedDispatch::start_at(int rank) const {
  DispatchStart start{.epoch = head_.run.position.epoch, .delivered = delivered_};
  if (rank != 0) return start;
  start.source = source_;
  start.pending = read_pending();
  std::int64_t epoch = start.epoch;
  std::int64_t number = start.delivered;
  bool is_sound = true;
  const auto go_to = [&](std::int64_t later) {
    if (later > epoch) number = 0;
    is_sound = is_sound && later >= epoch && later <= source_.epoch;
    epoch = later;
  };
  for (const PendingItems::Item& item : start.pending.items()) {
    go_to(item.epoch);
    is_sound = is_sound && item.number == number++;
  }
  go_to(source_.epoch);
  if (is_sound && number == source_.shard.position) return start;
  saved_.refusal().fail(
      fmt::format("its {} pending items are not those between what was delivered and what "
                  "was read",
                  start.pending.items().size()));
}

}  // namespace

// On another rank than 0 no tensor has a row.
StreamParts parts_of_dispatch(const StreamLoader& loader) {
  OrderedJson head = new_stream_state(kDispatchKind, loader);
  std::vector<TensorPart> tensors(3);
  tensors[0] = {.name = std::string(kCursors), .columns = kDispatchColumns};
  tensors[1] = {.name = std::string(kPending), .columns = kDispatchColumns};
  tensors[2] = {.name = std::string(kItems)};
  if (loader.world().rank > 0) return {.head = head.dump(), .tensors = std::move(tensors)};
  DispatchFeed& feed = *StreamState::dispatch(loader);
  PendingItems pending;
  const SourceProgress source = feed.pause(pending);
  const ShardProgress& shard = source.shard;
  head["delivered"] = feed.delivered();
  head["read"] = {{"epoch", source.epoch},           {"is_done", shard.is_done ? 1 : 0},
                  {"position", shard.position},      {"skip", shard.skip},
                  {"numbers", shard.cursor.numbers}, {"blob", to_base64(shard.cursor.blob)}};
  add_rows(loader, pending, tensors);
  return {.head = head.dump(), .tensors = std::move(tensors)};
}

void restore_dispatch(StreamLoader& loader, const SavedStream& stream) {
  const SavedDispatch saved(stream, loader);
  DispatchStart start = saved.start_at(loader.world().rank);
  StreamState::dispatch(loader)->restart(std::move(start));
  StreamState::restart(loader, saved.run());
}

}  // namespace rota::internal
