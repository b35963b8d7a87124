#include "resume/dispatch_resume.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>
#include <tuple>
#include <utility>

#include "resume/saved_stream.hpp"
#include "resume/stream_description.hpp"
#include "rota/cereal.hpp"
#include "rota/error.hpp"
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

/// The names of its tensors and of its blob.
struct Names {
  explicit Names(std::string_view name)
      : state(state_name(name)),
        cursors(cursors_name(name)),
        pending(part_of_loader(name, "pending")),
        items(part_of_loader(name, "items")) {}
  std::string state;
  std::string cursors;
  std::string pending;
  std::string items;
};

constexpr std::size_t kDispatchColumns = 4;
using DispatchColumns = std::array<std::int64_t, kDispatchColumns>;
static_assert(sizeof(ShardRow) == sizeof(DispatchColumns) && sizeof(ItemRow) == sizeof(DispatchColumns));

template <typename Row>
std::vector<std::int64_t> numbers_of(const std::vector<Row>& rows) {
  std::vector<std::int64_t> numbers;
  for (const Row& row : rows) {
    const auto columns = std::bit_cast<DispatchColumns>(row);
    numbers.insert(numbers.end(), columns.begin(), columns.end());
  }
  return numbers;
}
template <typename Row>
std::vector<Row> rows_from(const std::vector<std::int64_t>& numbers) {
  std::vector<Row> rows;
  for (std::size_t at = 0; at < numbers.size(); at += kDispatchColumns) {
    DispatchColumns columns{};
    std::copy_n(numbers.begin() + static_cast<std::ptrdiff_t>(at), kDispatchColumns, columns.begin());
    rows.push_back(std::bit_cast<Row>(columns));
  }
  return rows;
}

/// What rank 0 adds to the tensors; other ranks add none.
struct Rows {
  std::vector<ShardRow> shards;
  std::vector<ItemRow> pending;
  std::string items;
};

Rows rows_of(const StreamLoader& loader, const PendingItems& pending) {
  const DispatchFeed& feed = *StreamState::dispatch(loader);
  const DispatchPlan& plan = feed.plan();
  Rows rows;
  for (std::int64_t s = 0; s < plan.shards; ++s) {
    rows.shards.push_back(
        {.epoch = loader.position().epoch, .delivered = plan.count_of({s}, feed.delivered())});
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
    rows.items.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    ++rows.shards[static_cast<std::size_t>(shard)].pending;
    rows.shards[static_cast<std::size_t>(shard)].bytes += std::ssize(bytes);
  }
  return rows;
}

/// What is saved of a dispatch, as rank 0 has it.
struct Saving {
  std::string head = {};  // as JSON
  std::vector<std::int64_t> cursors = {};
  std::vector<std::int64_t> pending = {};
  std::string items = {};

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(head, cursors, pending, items);
  }
};

// On another rank than 0 it has no row.
Saving saving_of(const StreamLoader& loader) {
  DispatchFeed& feed = *StreamState::dispatch(loader);
  if (loader.world().rank > 0) return {.head = to_json(kDispatchKind, head_of(loader)).dump()};
  PendingItems pending;
  const SourceProgress source = feed.pause(pending);
  const ShardProgress& shard = source.shard;
  OrderedJson head = to_json(kDispatchKind, head_of(loader));
  head["delivered"] = feed.delivered();
  head["read"] = {{"epoch", source.epoch},           {"is_done", shard.is_done ? 1 : 0},
                  {"position", shard.position},      {"skip", shard.skip},
                  {"numbers", shard.cursor.numbers}, {"blob", to_base64(shard.cursor.blob)}};
  Rows rows = rows_of(loader, pending);
  return {.head = head.dump(),
          .cursors = numbers_of(rows.shards),
          .pending = numbers_of(rows.pending),
          .items = std::move(rows.items)};
}

/// A dispatch as it was saved. All of it is checked before anything is moved.
class SavedDispatch {
 public:
  /// Throws Error{mismatch} where it is of another source than `loader`'s, Error{corrupt}.
  SavedDispatch(const SavedStream& saved, const StreamLoader& loader, std::string_view name);

  [[nodiscard]] const StreamRun& run() const noexcept { return head_.run; }
  [[nodiscard]] DispatchStart start_at(int rank) const;

 private:
  void read_head();
  void require_sound() const;
  [[nodiscard]] PendingItems read_pending() const;

  const SavedStream& saved_;
  Names names_;
  DispatchPlan plan_;
  const RecordLayout& layout_;
  StreamHead head_;
  std::int64_t delivered_ = 0;
  SourceProgress source_;
};

SavedDispatch::SavedDispatch(const SavedStream& saved, const StreamLoader& loader, std::string_view name)
    : saved_(saved),
      names_(name),
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
  const auto rows = rows_from<ShardRow>(saved_.rows(names_.cursors, kDispatchColumns));
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
  std::vector<std::byte> bytes(static_cast<std::size_t>(saved_.bytes(names_.items)));
  saved_.read(names_.items, 0, bytes);
  std::vector<PendingItems::Item> items;
  std::size_t at = 0;
  for (const ItemRow& row : rows_from<ItemRow>(saved_.rows(names_.pending, kDispatchColumns))) {
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

void restore_from(StreamLoader& loader, const SavedStream& stream, std::string_view name) {
  const SavedDispatch saved(stream, loader, name);
  DispatchStart start = saved.start_at(loader.world().rank);
  StreamState::dispatch(loader)->restart(std::move(start));
  StreamState::restart(loader, saved.run());
}

std::vector<std::byte> to_bytes(const auto& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

void save_dispatch(const StreamLoader& loader, Snapshot& snapshot, std::string_view name) {
  const Saving saving = saving_of(loader);
  const Names names(name);
  const auto add = [&](const std::string& tensor, const std::vector<std::int64_t>& numbers) {
    snapshot.tensor(tensor, DType::int64, {kDispatchColumns},
                    std::ssize(numbers) / std::int64_t{kDispatchColumns}, to_bytes(numbers));
  };
  add(names.cursors, saving.cursors);
  add(names.pending, saving.pending);
  snapshot.tensor(names.items, DType::uint8, {}, std::ssize(saving.items), to_bytes(saving.items));
  snapshot.blob(names.state, saving.head);
}

std::string state_of_dispatch(const StreamLoader& loader) {
  const auto parts = StreamState::gather(
      loader, [&] { return loader.world().rank == 0 ? to_blob(saving_of(loader)) : std::string(); });
  const auto saving = from_blob<Saving>(parts.front());
  auto json = OrderedJson::parse(saving.head);
  json["tensors"] = {{"cursors", to_json(saving.cursors, kDispatchColumns)},
                     {"pending", to_json(saving.pending, kDispatchColumns)},
                     {"items", to_base64(saving.items)}};
  return sealed(std::move(json));
}

// Restores are counted whatever fails, on whichever rank.
void restore_dispatch(StreamLoader& loader, const Checkpoint& checkpoint, std::string_view name) {
  StreamState::dispatch(loader)->count_restore();
  restore_from(loader, StreamInCheckpoint(kDispatchKind, checkpoint, Names(name).state), name);
}

void restore_dispatch(StreamLoader& loader, std::string_view state) {
  StreamState::dispatch(loader)->count_restore();
  restore_from(loader, StreamInText(kDispatchKind, state), {});
}

std::string describe_dispatch(const Checkpoint& checkpoint, std::string_view name) {
  const Names names(name);
  const StreamInCheckpoint saved(kDispatchKind, checkpoint, names.state);
  return fmt::format("{}; {} items of the epoch delivered, {} read and pending", describe(saved.head()),
                     saved.state().number("delivered"), checkpoint.tensor(names.pending).rows());
}

}  // namespace rota::internal
