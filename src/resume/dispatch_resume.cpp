#include "resume/stream_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "core/owned.hpp"
#include "stream/dispatch_feed.hpp"

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

constexpr std::string_view kPending = "pending";
constexpr std::string_view kItems = "items";
constexpr std::string_view kOpen = "open";
constexpr std::string_view kOpenItems = "open_items";
constexpr int kVersionOfOpen = 2;  // which has those two
constexpr std::int64_t kDispatchColumns = 4;
static_assert(sizeof(ShardRow) == 8 * kDispatchColumns && sizeof(ItemRow) == 8 * kDispatchColumns);

// Adds items to the tensors of their rows and of their bytes.
std::vector<ItemRow> add_items(KeptSamples items, const DispatchPlan& plan, TensorPart& rows,
                               TensorPart& data) {
  std::ranges::sort(items, {}, [&](const KeptSample& item) {
    return std::tuple(plan.shard_of(item.name.id.value), item.place());
  });
  std::vector<ItemRow> all;
  for (const auto& [name, record] : items) {
    all.push_back({.epoch = name.epoch,
                   .shard = plan.shard_of(name.id.value).value,
                   .position = plan.position_of(name.id.value),
                   .bytes = std::ssize(record)});
    data.data += record;
  }
  rows.append(std::as_bytes(std::span(all)));
  return all;
}

// Adds the rows of this rank, which is rank 0, to the tensors of cursors, pending items and their bytes.
void add_rows(const StreamLoader& loader, KeptSamples pending, std::vector<TensorPart>& tensors) {
  const DispatchFeed& feed = *Behind::of(loader).dispatch();
  const DispatchPlan& plan = feed.plan();
  std::vector<ShardRow> shards;
  for (std::int64_t s = 0; s < plan.shards; ++s) {
    shards.push_back({.epoch = loader.position().epoch, .delivered = plan.count_of({s}, feed.delivered())});
  }
  for (const ItemRow& row : add_items(std::move(pending), plan, tensors[1], tensors[2])) {
    ShardRow& shard = shards[static_cast<std::size_t>(row.shard)];
    ++shard.pending;
    shard.bytes += row.bytes;
  }
  tensors[0].append(std::as_bytes(std::span(shards)));
}

// ---- restoring: all of it is checked before anything is moved ----

// Where it is, without what is pending.
DispatchStart read_start(const SavedState& saved) {
  const JsonObject state = saved.object();
  const JsonObject read = state.object("read");
  using Limits = std::numeric_limits<std::int64_t>;
  return {.epoch = head_of(saved).run.position.epoch,
          .delivered = state.number("delivered"),
          .source = {.epoch = read.number("epoch"),
                     .shard = {.shard = {},
                               .is_done = read.number("is_done") != 0,
                               .position = read.number("position"),
                               .skip = read.number("skip"),
                               .cursor = {.numbers = read.numbers("numbers", Limits::min(), Limits::max()),
                                          .blob = from_base64(read, "blob")}}}};
}

// Where it is, and what each shard's cursor says, must agree.
void require_sound(const SavedState& saved, const DispatchStart& start, const DispatchPlan& plan) {
  const StreamHead head = head_of(saved);
  const auto rows = saved.rows<ShardRow>(kCursors);
  const ShardProgress& source = start.source.shard;
  const auto numbers = std::ssize(source.cursor.numbers);
  bool is_sound = std::ssize(rows) == head.shards && start.source.epoch >= start.epoch &&
                  source.position >= source.skip &&
                  numbers == (source.cursor.is_start() ? 0 : head.cursor_numbers);
  for (std::int64_t s = 0; s < std::ssize(rows) && is_sound; ++s) {
    const ShardRow& row = rows[static_cast<std::size_t>(s)];
    is_sound = row.epoch == start.epoch && row.pending >= 0 && row.bytes >= 0 &&
               row.delivered == plan.count_of({s}, start.delivered);
  }
  if (is_sound) return;
  saved.fail(
      fmt::format("its cursors cannot be those of epoch {}, step {}", start.epoch, head.run.position.step));
}

// They are dealt to shards in turn, so that with their numbers their order is back.
KeptSamples read_items(const SavedState& saved, std::string_view of_rows, std::string_view of_bytes,
                       const DispatchFeed& feed) {
  const std::int64_t shards = feed.plan().shards;
  std::vector<std::byte> bytes(static_cast<std::size_t>(saved.bytes(of_bytes)));
  saved.read(of_bytes, 0, bytes);
  KeptSamples items;
  std::size_t at = 0;
  for (const ItemRow& row : saved.rows<ItemRow>(of_rows)) {
    const bool fits = row.shard >= 0 && row.shard < shards && row.position >= 0 && row.bytes >= 0 &&
                      row.bytes <= std::ssize(bytes) - static_cast<std::int64_t>(at) &&
                      row.position < kMaxCount / shards;
    if (!fits) saved.fail(fmt::format("{} item {} cannot be one", of_rows, items.size()));
    const ByteSpan record = ByteSpan(bytes).subspan(at, static_cast<std::size_t>(row.bytes));
    if (feed.layout().first(record).size() != record.size())
      saved.fail(fmt::format("{} item {} is too long", of_rows, items.size()));
    items.push_back(kept(row.epoch, row.position * shards + row.shard, record));
    at += record.size();
  }
  std::ranges::sort(items, {}, &KeptSample::place);
  return items;
}

// The items that are pending must be those between what was delivered and what was read.
void require_joined(const SavedState& saved, const DispatchStart& start) {
  std::int64_t epoch = start.epoch;
  std::int64_t number = start.delivered;
  bool is_sound = true;
  const auto go_to = [&](std::int64_t later) {
    if (later > epoch) number = 0;
    is_sound = is_sound && later >= epoch && later <= start.source.epoch;
    epoch = later;
  };
  for (const KeptSample& item : start.pending) {
    go_to(item.name.epoch);
    is_sound = is_sound && item.name.id.value == number++;
  }
  go_to(start.source.epoch);
  if (is_sound && number == start.source.shard.position) return;
  saved.fail(fmt::format("its {} pending items are not those between what was delivered and what was read",
                         start.pending.size()));
}

// Each of those that were delivered at most once.
KeptSamples read_open(const SavedState& saved, const DispatchStart& start, const DispatchFeed& feed) {
  if (saved.object().number("rota_state") < kVersionOfOpen) return {};
  KeptSamples open = read_items(saved, kOpen, kOpenItems, feed);
  std::pair<std::int64_t, std::int64_t> last(0, -1);
  for (const KeptSample& item : open) {
    const auto before = std::exchange(last, item.place());
    if (last > before && last < std::pair(start.epoch, start.delivered)) continue;
    saved.fail(fmt::format("item {} of epoch {} cannot be open", last.second, last.first));
  }
  return open;
}

}  // namespace

// On another rank than 0 no tensor has a row, but for what is open, of which each rank has its own.
StreamParts parts_of_dispatch(const StreamLoader& loader) {
  OrderedJson head = new_stream_state(kDispatchKind, loader);
  DispatchFeed& feed = *Behind::of(loader).dispatch();
  std::vector<TensorPart> tensors(3);
  tensors[0] = {.name = std::string(kCursors), .columns = kDispatchColumns};
  tensors[1] = {.name = std::string(kPending), .columns = kDispatchColumns};
  tensors[2] = {.name = std::string(kItems)};
  if (feed.keeps_open_items()) {
    head["rota_state"] = kVersionOfOpen;
    tensors.push_back({.name = std::string(kOpen), .columns = kDispatchColumns});
    tensors.push_back({.name = std::string(kOpenItems)});
    add_items(feed.open_items(), feed.plan(), tensors[3], tensors[4]);
  }
  if (loader.world().rank > 0) return {.head = head.dump(), .tensors = std::move(tensors)};
  KeptSamples pending;
  const SourceProgress source = feed.pause(pending);
  const ShardProgress& shard = source.shard;
  head["delivered"] = feed.delivered();
  head["read"] = {{"epoch", source.epoch},           {"is_done", shard.is_done ? 1 : 0},
                  {"position", shard.position},      {"skip", shard.skip},
                  {"numbers", shard.cursor.numbers}, {"blob", to_base64(shard.cursor.blob)}};
  add_rows(loader, std::move(pending), tensors);
  return {.head = head.dump(), .tensors = std::move(tensors)};
}

void restore_dispatch(StreamLoader& loader, const SavedState& saved) {
  DispatchFeed& feed = *Behind::of(loader).dispatch();
  require_same_source(saved, loader);
  DispatchStart start = read_start(saved);
  require_sound(saved, start, feed.plan());
  if (loader.world().rank == 0) {
    start.pending = read_items(saved, kPending, kItems, feed);
    require_joined(saved, start);
  }
  KeptSamples open = read_open(saved, start, feed);
  const StreamRun run = head_of(saved).run;
  feed.restart(std::move(start));
  feed.come_again(std::move(open));
  Behind::of(loader).settling()->begin_anew("a restore");
  Behind::of(loader).restart(run);
}

}  // namespace rota::internal
