#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <numeric>

#include "checkpoint/snapshot_data.hpp"
#include "core/bytes.hpp"
#include "core/failure.hpp"
#include "core/owned.hpp"
#include "resume/stream_state.hpp"
#include "rota/cereal.hpp"
#include "rota/checkpoint.hpp"
#include "rota/snapshot.hpp"
#include "stream/dispatch_feed.hpp"
#include "stream/shard_feed.hpp"
#include "stream/stream_facts.hpp"
#include "stream/stream_loader_impl.hpp"

namespace rota {
namespace internal {

OrderedJson new_stream_state(std::string_view kind, const StreamLoader& loader) {
  const StreamFacts& facts = Behind::of(loader).facts();
  const auto& [position, epoch_began] = Behind::of(loader).run();
  const std::int64_t epochs = loader.options().epochs;
  OrderedJson json = new_state(kind);
  json["source"] = {{"dataset", to_string(loader.fingerprint())},
                    {"shards", facts.shards},
                    {"cursor_numbers", facts.cursor_numbers}};
  json["position"] = {{"epoch", position.epoch}, {"step", position.step}, {"epoch_began", epoch_began}};
  json["run"] = {{"world_size", loader.world().size},
                 {"global_batch_size", loader.options().global_batch_size},
                 {"epochs", epochs == kEndless ? "endless" : std::to_string(epochs)}};
  return json;
}

StreamHead head_of(const SavedState& saved) {
  const JsonObject source = saved.object().object("source");
  const JsonObject position = saved.object().object("position");
  const JsonObject run = saved.object().object("run");
  static_cast<void>(run.number("global_batch_size"));  // which, with the epochs, are for people
  static_cast<void>(run.text("epochs"));
  const StreamHead head{
      .shards = source.number("shards"),
      .cursor_numbers = source.number("cursor_numbers"),
      .run = {.position = {.epoch = position.number("epoch"), .step = position.number("step")},
              .epoch_began = position.number("epoch_began")},
      .world_size = run.number("world_size")};
  // Steps are agreed on by 2 epoch + 1.
  const bool is_sound = head.run.position.epoch < kMaxCount / 2 &&
                        head.run.epoch_began <= head.run.position.step && head.shards >= 1 &&
                        head.cursor_numbers >= 1 && head.world_size >= 1 && head.world_size <= INT_MAX;
  if (!is_sound) {
    saved.fail(fmt::format(
        "it cannot be at epoch {}, begun at step {}, and step {} of {} shards in a world of {}",
        head.run.position.epoch, head.run.epoch_began, head.run.position.step, head.shards, head.world_size));
  }
  return head;
}

void require_same_source(const SavedState& saved, const StreamLoader& loader) {
  const JsonObject then = saved.object().object("source");
  const StreamFacts& now = Behind::of(loader).facts();
  saved.require_same("the number of shards", then.number("shards"), now.shards);
  saved.require_same("the number of a cursor's numbers", then.number("cursor_numbers"), now.cursor_numbers);
  saved.require_same("the dataset's fingerprint", then.text("dataset"), to_string(loader.fingerprint()));
}

std::string describe_stream(std::string_view kind, const Checkpoint& checkpoint, std::string_view name) {
  const SavedState saved(kind, checkpoint, name);
  const StreamHead head = head_of(saved);
  const JsonObject run = saved.object().object("run");
  std::string text = fmt::format(
      "{} shards with fingerprint {}, batch {}, {} epochs, at epoch {}, step {}, in a world of {}",
      head.shards, saved.object().object("source").text("dataset"), run.number("global_batch_size"),
      run.text("epochs"), head.run.position.epoch, head.run.position.step, head.world_size);
  if (kind != kDispatchKind) return text;
  text += fmt::format("; {} items of the epoch delivered, {} read and pending",
                      saved.object().number("delivered"),
                      checkpoint.tensor(part_of_loader(name, "pending")).rows());
  if (saved.has("open"))
    text += fmt::format(", {} open", checkpoint.tensor(part_of_loader(name, "open")).rows());
  return text;
}

namespace {

/// A shard's row of the cursors, before the numbers of the source's cursor.
struct Row {
  std::int64_t epoch = 0;
  std::int64_t is_done = 0;
  std::int64_t position = 0;
  std::int64_t skip = 0;
  std::int64_t turn = 0;
  std::int64_t owner = 0;
  std::int64_t remaining = kUnknownWeight;
  std::int64_t blob_bytes = 0;
  std::int64_t blob_digest = 0;
};
constexpr std::size_t kShardColumns = 9;
static_assert(sizeof(Row) == kShardColumns * sizeof(std::int64_t));

constexpr std::string_view kBlobs = "blobs";

std::int64_t digest_of(std::string_view blob) {
  return static_cast<std::int64_t>(FingerprintBuilder().add(blob).finish().low);
}

// ---- saving ----

std::int64_t remaining(const StreamSource& source, const ShardProgress& place) {
  if (place.is_done) return 0;
  const auto samples = ask_remaining(source, place.shard, place.cursor);
  return samples ? std::clamp<std::int64_t>(*samples - place.skip, 0, kMaxCount) : kUnknownWeight;
}

// What this rank saves, in order of its shards.
StreamParts parts_of(const StreamLoader& loader) {
  const ShardRun& run = Behind::of(loader).shards()->run();
  const std::size_t count = run.places.size();
  std::vector<std::size_t> by_shard(count);
  std::iota(by_shard.begin(), by_shard.end(), std::size_t{0});
  std::ranges::sort(by_shard, {}, [&](std::size_t i) { return run.places[i].shard; });
  TensorPart cursors{.name = std::string(kCursors),
                     .columns = std::int64_t{kShardColumns} + Behind::of(loader).facts().cursor_numbers,
                     .has_rows = true};
  TensorPart blobs{.name = std::string(kBlobs)};
  for (const std::size_t i : by_shard) {
    const ShardProgress& place = run.places[i];
    const Row row{.epoch = loader.position().epoch,
                  .is_done = place.is_done ? 1 : 0,
                  .position = place.position,
                  .skip = place.skip,
                  .turn = static_cast<std::int64_t>((i + count - run.first) % count),
                  .owner = loader.world().rank,
                  .remaining = remaining(loader.source(), place),
                  .blob_bytes = std::ssize(place.cursor.blob),
                  .blob_digest = digest_of(place.cursor.blob)};
    cursors.rows.push_back(place.shard.value);
    cursors.append(std::as_bytes(std::span(&row, 1)));
    cursors.append(std::as_bytes(std::span(place.cursor.numbers)));
    cursors.data.resize(cursors.rows.size() * static_cast<std::size_t>(cursors.row_bytes()));
    blobs.data += place.cursor.blob;
  }
  return {.head = new_stream_state(kStreamKind, loader).dump(),
          .tensors = {std::move(cursors), std::move(blobs)}};
}

// ---- restoring ----

/// The cursors and blobs of a saved state. All of it is checked before anything is moved.
class Saved {
 public:
  /// Throws Error{mismatch} where it is of another source than `loader`'s, Error{corrupt}.
  Saved(const SavedState& saved, const StreamLoader& loader)
      : saved_(saved), head_(head_of(saved)), width_(std::int64_t{kShardColumns} + head_.cursor_numbers) {
    require_same_source(saved, loader);
    read_rows();
    lay_out_blobs();
  }

  [[nodiscard]] const StreamRun& run() const noexcept { return head_.run; }

  [[nodiscard]] ShardRun shards_in(const World& world) const {
    const std::vector<int> owners = owners_in(world);
    std::vector<std::size_t> mine;
    for (std::size_t s = 0; s < rows_.size(); ++s) {
      if (owners[s] == world.rank) mine.push_back(s);
    }
    std::ranges::stable_sort(mine, {}, [&](std::size_t s) { return rows_[s].turn; });
    ShardRun run;
    for (const std::size_t s : mine) run.places.push_back(place_of(s));
    return run;
  }

 private:
  [[nodiscard]] bool is_sound(const Row& row) const noexcept {
    const auto is_count = [](std::int64_t count) { return count >= 0 && count <= kMaxCount; };
    return row.epoch == head_.run.position.epoch && (row.is_done == 0 || row.is_done == 1) &&
           is_count(row.skip) && is_count(row.position) && row.position >= row.skip && row.owner >= 0 &&
           row.owner < head_.world_size && (is_count(row.remaining) || row.remaining == kUnknownWeight) &&
           row.blob_bytes >= 0 && row.blob_bytes <= bytes_ &&
           (row.position > row.skip || row.blob_bytes == 0);
  }

  void read_rows() {
    cursors_ = saved_.numbers(kCursors, width_);
    bytes_ = saved_.bytes(kBlobs);
    if (std::ssize(cursors_) != head_.shards * width_)
      saved_.fail(fmt::format("its cursors are not [{}, {}]", head_.shards, width_));
    const auto bytes = std::as_bytes(std::span(cursors_));
    for (std::int64_t s = 0; s < head_.shards; ++s) {
      const auto at = static_cast<std::size_t>(s * width_) * sizeof(std::int64_t);
      rows_.push_back(load<Row>(bytes, at));
      if (is_sound(rows_.back())) continue;
      const Position& position = head_.run.position;
      saved_.fail(fmt::format("the cursor of shard {} cannot be one of epoch {}, step {}", s, position.epoch,
                              position.step));
    }
  }

  // Blobs lie in order of their owners, then of shards.
  void lay_out_blobs() {
    std::vector<std::size_t> order(rows_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t s) { return rows_[s].owner; });
    blob_begins_.resize(rows_.size());
    std::int64_t at = 0;
    for (const std::size_t s : order) {
      blob_begins_[s] = at;
      at += rows_[s].blob_bytes;
      if (at > bytes_) break;
    }
    if (at != bytes_)
      saved_.fail(fmt::format("its {} bytes of blobs are not as long as its cursors say", bytes_));
  }

  [[nodiscard]] std::vector<int> owners_in(const World& world) const {
    std::vector<int> owners;
    std::vector<std::int64_t> weights;
    for (const Row& row : rows_) {
      owners.push_back(static_cast<int>(row.owner));
      weights.push_back(row.is_done == 1 ? 0 : row.remaining);
    }
    return world.size == head_.world_size ? owners : share_out(weights, world.size);
  }

  [[nodiscard]] ShardProgress place_of(std::size_t shard) const {
    const Row& row = rows_[shard];
    ShardProgress place{.shard = {static_cast<std::int64_t>(shard)},
                        .is_done = row.is_done == 1,
                        .position = row.position,
                        .skip = row.skip,
                        .cursor = {}};
    if (row.position > row.skip) {
      const auto end = cursors_.begin() + (place.shard.value + 1) * width_;
      place.cursor.numbers.assign(end - head_.cursor_numbers, end);
    }
    place.cursor.blob.resize(static_cast<std::size_t>(row.blob_bytes));
    if (row.blob_bytes > 0)
      saved_.read(kBlobs, blob_begins_[shard], std::as_writable_bytes(std::span(place.cursor.blob)));
    if (digest_of(place.cursor.blob) == row.blob_digest) return place;
    saved_.fail(
        fmt::format("the blob of shard {} is not the one that was saved with its cursor; ranks are to save "
                    "in the order of the loader's",
                    shard));
  }

  const SavedState& saved_;
  StreamHead head_;
  std::int64_t width_;      // columns
  std::int64_t bytes_ = 0;  // of all blobs
  std::vector<std::int64_t> cursors_;
  std::vector<Row> rows_;
  std::vector<std::int64_t> blob_begins_;
};

StreamParts parts_of_any(const StreamLoader& loader) {
  return Behind::of(loader).dispatch() == nullptr ? parts_of(loader) : parts_of_dispatch(loader);
}

// `from` is what a SavedState is made of.
template <typename... From>
void restore_from(StreamLoader& loader, const From&... from) {
  auto* const dispatch = Behind::of(loader).dispatch();
  if (dispatch != nullptr) dispatch->count_restore();  // whatever fails, on whichever rank
  const SavedState state(dispatch == nullptr ? kStreamKind : kDispatchKind, from...);
  state.require_digest();
  if (dispatch != nullptr) return restore_dispatch(loader, state);
  const Saved saved(state, loader);
  ShardRun run = saved.shards_in(loader.world());
  Behind::of(loader).shards()->restart(saved.run().position.epoch, std::move(run));
  Behind::of(loader).restart(saved.run());
}

// ---- as a snapshot, or a text ----

// Adds a rank's part to those of the ranks before it.
void add_part(const TensorPart& part, std::string& all) {
  if (!part.has_rows) all += part.data;
  const auto width = static_cast<std::size_t>(part.row_bytes());
  for (std::size_t i = 0; i < part.rows.size(); ++i) {
    const std::size_t begin = static_cast<std::size_t>(part.rows[i]) * width;
    all.resize(std::max(all.size(), begin + width));
    part.data.copy(all.data() + begin, width, i * width);
  }
}

OrderedJson as_json(const std::string& data, std::int64_t columns) {
  if (columns == 0) return to_base64(data);
  OrderedJson rows = OrderedJson::array();
  std::vector<std::int64_t> row(static_cast<std::size_t>(columns));
  const std::size_t bytes = row.size() * sizeof(std::int64_t);
  for (std::size_t at = 0; at < data.size(); at += bytes) {
    std::memcpy(row.data(), data.data() + at, bytes);
    rows.push_back(row);
  }
  return rows;
}

void save_parts(const StreamParts& parts, Snapshot& snapshot, std::string_view name) {
  for (const TensorPart& part : parts.tensors) {
    const std::string tensor = part_of_loader(name, part.name);
    const DType dtype = part.columns == 0 ? DType::uint8 : DType::int64;
    std::vector<std::int64_t> row_shape(part.columns > 0 ? 1 : 0, part.columns);
    const auto bytes = std::as_bytes(std::span(part.data));
    std::vector<std::byte> data(bytes.begin(), bytes.end());
    if (part.has_rows) {
      std::vector<RowRange> ranges;
      for (const std::int64_t row : part.rows) ranges.push_back({.first = row, .count = 1});
      snapshot.tensor(tensor, dtype, std::move(row_shape), ranges, std::move(data));
    } else {
      snapshot.tensor(tensor, dtype, std::move(row_shape), std::ssize(part.data) / part.row_bytes(),
                      std::move(data));
    }
  }
  snapshot.blob(part_of_loader(name, kState), parts.head);
}

std::string gather_text(const StreamLoader& loader) {
  std::vector<StreamParts> ranks;
  for (const std::string& parts : Behind::of(loader).gather([&] { return to_blob(parts_of_any(loader)); })) {
    ranks.push_back(from_blob<StreamParts>(parts));
  }
  auto json = OrderedJson::parse(ranks.front().head);
  for (std::size_t t = 0; t < ranks.front().tensors.size(); ++t) {
    const TensorPart& tensor = ranks.front().tensors[t];
    std::string all;
    for (const StreamParts& parts : ranks) add_part(parts.tensors[t], all);
    json["tensors"][tensor.name] = as_json(all, tensor.columns);
  }
  return sealed(std::move(json));
}
}  // namespace

}  // namespace internal

void save(const StreamLoader& loader, Snapshot& snapshot, std::string_view name) {
  checkpoint::SnapshotData& data = SnapshotAccess::data(snapshot);
  const int ranks = loader.world().size;
  if (data.is_alone() && ranks > 1) {
    throw internal::failure(
        ErrorCode::invalid_argument,
        "save a stream loader: it is one of {} ranks, each of which alone knows where its shards are, and "
        "this directory is of one rank; give the directory their communicator",
        ranks);
  }
  internal::save_parts(internal::parts_of_any(loader), snapshot, name);
  const Position at = loader.position();
  snapshot.same(fmt::format("loader/{}", name),
                fmt::format("its place at epoch {}, step {}\na world of {}", at.epoch, at.step, ranks));
  data.share_out(ranks);
}

void restore(StreamLoader& loader, const Checkpoint& checkpoint, std::string_view name) {
  internal::restore_from(loader, checkpoint, name);
}

std::string state(const StreamLoader& loader) { return internal::gather_text(loader); }

void restore(StreamLoader& loader, std::string_view state) { internal::restore_from(loader, state); }

}  // namespace rota
