#include "stream/resume_dispatch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "loader/resume_state.hpp"
#include "rota/error.hpp"
#include "stream/dispatch_feed.hpp"
#include "stream/resume_refusal.hpp"
#include "stream/stream_state.hpp"

namespace rota::internal {
namespace {

constexpr std::uint32_t kStateVersion = 1;

/// What the blob "dispatch/<name>/state" holds, as rank 0 has it.
struct State {
  Fingerprint dataset;
  std::int64_t shards = 0;
  std::int64_t cursor_numbers = 0;
  StreamRun run;
  std::int64_t delivered = 0;  // items of the epoch
  SourcePlace source;
  std::int32_t world_size = 0;  // from here on for people; the new program's count
  std::int64_t global_batch_size = 0;
  std::int64_t epochs = 0;

  template <typename Archive>
  void serialize(Archive& archive) {
    ShardPlace& shard = source.shard;
    archive(dataset.high, dataset.low, shards, cursor_numbers, run.position.epoch, run.position.step,
            run.epoch_began, delivered, source.epoch, shard.is_done, shard.position, shard.skip,
            shard.cursor.numbers, shard.cursor.blob, world_size, global_batch_size, epochs);
  }
};

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

/// The names of its tensors and of its blob.
struct Names {
  explicit Names(std::string_view name)
      : state(fmt::format("dispatch/{}/state", name)),
        cursors(fmt::format("dispatch/{}/cursors", name)),
        pending(fmt::format("dispatch/{}/pending", name)),
        items(fmt::format("dispatch/{}/items", name)) {}
  std::string state;
  std::string cursors;
  std::string pending;
  std::string items;
};

State state_of(const StreamLoader& loader) {
  return {.dataset = loader.fingerprint(),
          .shards = loader.source().shards(),
          .cursor_numbers = loader.source().cursor_numbers(),
          .run = StreamState::run(loader),
          .delivered = StreamState::dispatch(loader)->delivered(),
          .source = {},
          .world_size = loader.world().size,
          .global_batch_size = loader.options().global_batch_size,
          .epochs = loader.options().epochs};
}

template <typename Row>
std::vector<std::byte> bytes_of(const std::vector<Row>& rows) {
  const auto bytes = std::as_bytes(std::span(rows));
  return {bytes.begin(), bytes.end()};
}

/// What rank 0 adds to the tensors; other ranks add none.
struct Rows {
  std::vector<ShardRow> shards;
  std::vector<ItemRow> pending;
  std::vector<std::byte> items;
};

Rows rows_of(const State& state, const DispatchPlan& plan, const PendingItems& pending) {
  const std::int64_t epoch = state.run.position.epoch;
  Rows rows;
  for (std::int64_t s = 0; s < state.shards; ++s) {
    rows.shards.push_back({.epoch = epoch, .delivered = plan.count_of({s}, state.delivered)});
  }
  std::vector<PendingItems::Item> items = pending.items();
  std::ranges::sort(items, {}, [&](const PendingItems::Item& item) {
    return std::tuple(plan.shard_of(item.number), item.epoch, item.number);
  });
  for (const PendingItems::Item& item : items) {
    const ByteSpan bytes = pending.bytes(item);
    const std::int64_t shard = plan.shard_of(item.number).value;
    rows.pending.push_back({.epoch = item.epoch,
                            .shard = shard,
                            .position = plan.position_of(item.number),
                            .bytes = std::ssize(bytes)});
    rows.items.insert(rows.items.end(), bytes.begin(), bytes.end());
    ++rows.shards[static_cast<std::size_t>(shard)].pending;
    rows.shards[static_cast<std::size_t>(shard)].bytes += std::ssize(bytes);
  }
  return rows;
}

/// A dispatch as a checkpoint has it.
class Saved : SavedStream {
 public:
  Saved(const Checkpoint& checkpoint, std::string_view name, const DispatchFeed& feed)
      : SavedStream(checkpoint),
        names_(name),
        plan_(feed.plan()),
        layout_(feed.layout()),
        state_(from_state_blob<State>(checkpoint, names_.state, kStateVersion, "a stream loader")) {}

  void require_same_source(const State& here) const { SavedStream::require_same_source(state_, here); }
  void require_sound() const;
  [[nodiscard]] const StreamRun& run() const noexcept { return state_.run; }
  [[nodiscard]] DispatchStart start_at(int rank) const;

 private:
  template <typename Row>
  [[nodiscard]] std::vector<Row> read_rows(const std::string& name) const;
  [[nodiscard]] PendingItems read_pending() const;

  Names names_;
  DispatchPlan plan_;
  const RecordLayout& layout_;
  State state_;
};

// Where it is, and what each shard's cursor says, must agree.
void Saved::require_sound() const {
  const auto rows = read_rows<ShardRow>(names_.cursors);
  const ShardPlace& source = state_.source.shard;
  bool is_sound = std::ssize(rows) == state_.shards && state_.delivered >= 0 &&
                  state_.source.epoch >= state_.run.position.epoch && source.skip >= 0 &&
                  source.position >= source.skip &&
                  std::ssize(source.cursor.numbers) == (source.cursor.is_start() ? 0 : state_.cursor_numbers);
  for (std::int64_t s = 0; s < std::ssize(rows) && is_sound; ++s) {
    const ShardRow& row = rows[static_cast<std::size_t>(s)];
    is_sound = row.epoch == state_.run.position.epoch && row.pending >= 0 && row.bytes >= 0 &&
               row.delivered == plan_.count_of({s}, state_.delivered);
  }
  if (is_sound) return;
  fail(ErrorCode::corrupt, fmt::format("its cursors cannot be those of epoch {}, step {}",
                                       state_.run.position.epoch, state_.run.position.step));
}

template <typename Row>
std::vector<Row> Saved::read_rows(const std::string& name) const {
  constexpr std::int64_t kColumns = sizeof(Row) / sizeof(std::int64_t);
  const auto& shape = checkpoint().tensor(name).shape;
  if (shape.size() != 2 || shape[1] != kColumns) {
    fail(ErrorCode::corrupt, fmt::format("{} is not [rows, {}]", name, kColumns));
  }
  const auto numbers = checkpoint().read<std::int64_t>(name);
  std::vector<Row> rows(numbers.size() / kColumns);
  std::copy_n(std::as_bytes(std::span(numbers)).begin(), rows.size() * sizeof(Row),
              std::as_writable_bytes(std::span(rows)).begin());
  return rows;
}

// They are dealt to shards in turn, so that with their numbers their order is back.
PendingItems Saved::read_pending() const {
  const auto rows = read_rows<ItemRow>(names_.pending);
  const auto bytes = checkpoint().read<std::uint8_t>(names_.items);
  std::vector<PendingItems::Item> items;
  std::size_t at = 0;
  for (const ItemRow& row : rows) {
    const bool fits = row.shard >= 0 && row.shard < state_.shards && row.position >= 0 && row.bytes >= 0 &&
                      row.bytes <= std::ssize(bytes) - static_cast<std::int64_t>(at) &&
                      row.position < (std::int64_t{1} << 62) / state_.shards;
    if (!fits) fail(ErrorCode::corrupt, fmt::format("pending item {} cannot be one", items.size()));
    items.push_back({.epoch = row.epoch,
                     .number = row.position * state_.shards + row.shard,
                     .begin = at,
                     .size = static_cast<std::size_t>(row.bytes)});
    at += static_cast<std::size_t>(row.bytes);
  }
  std::ranges::sort(items, {},
                    [](const PendingItems::Item& item) { return std::pair(item.epoch, item.number); });
  PendingItems pending;
  for (const auto& item : items) {
    const ByteSpan record = std::as_bytes(std::span(bytes)).subspan(item.begin, item.size);
    if (layout_.first(record).size() != record.size()) fail(ErrorCode::corrupt, "a pending item is too long");
    pending.add(item.epoch, item.number, record);
  }
  return pending;
}

DispatchStart Saved::start_at(int rank) const {
  DispatchStart start{.epoch = state_.run.position.epoch, .delivered = state_.delivered};
  if (rank != 0) return start;
  start.source = state_.source;
  start.pending = read_pending();
  std::int64_t epoch = start.epoch;
  std::int64_t number = start.delivered;
  bool is_sound = true;
  const auto go_to = [&](std::int64_t later) {
    if (later > epoch) number = 0;
    is_sound = is_sound && later >= epoch && later <= state_.source.epoch;
    epoch = later;
  };
  for (const PendingItems::Item& item : start.pending.items()) {
    go_to(item.epoch);
    is_sound = is_sound && item.number == number++;
  }
  go_to(state_.source.epoch);
  if (is_sound && number == state_.source.shard.position) return start;
  fail(ErrorCode::corrupt, fmt::format("its {} pending items are not those between what was delivered and "
                                       "what was read",
                                       start.pending.items().size()));
}

}  // namespace

void save_dispatch(const StreamLoader& loader, Snapshot& snapshot, std::string_view name) {
  DispatchFeed& feed = *StreamState::dispatch(loader);
  State state = state_of(loader);
  Rows rows;
  if (loader.world().rank == 0) {
    PendingItems pending;
    state.source = feed.hold(pending);
    rows = rows_of(state, feed.plan(), pending);
  }
  const Names names(name);
  snapshot.tensor(names.cursors, DType::int64, {sizeof(ShardRow) / sizeof(std::int64_t)},
                  std::ssize(rows.shards), bytes_of(rows.shards));
  snapshot.tensor(names.pending, DType::int64, {sizeof(ItemRow) / sizeof(std::int64_t)},
                  std::ssize(rows.pending), bytes_of(rows.pending));
  snapshot.tensor(names.items, DType::uint8, {}, std::ssize(rows.items), std::move(rows.items));
  snapshot.blob(names.state, to_state_blob(kStateVersion, state));
}

void restore_dispatch(StreamLoader& loader, const Checkpoint& checkpoint, std::string_view name) {
  DispatchFeed& feed = *StreamState::dispatch(loader);
  feed.count_restore();  // whatever fails, on whichever rank
  const Saved saved(checkpoint, name, feed);
  saved.require_same_source(state_of(loader));
  saved.require_sound();
  feed.go_on(saved.start_at(loader.world().rank));
  StreamState::go_on(loader, saved.run());
}

}  // namespace rota::internal
