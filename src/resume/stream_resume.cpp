#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>
#include <numeric>

#include "resume/dispatch_resume.hpp"
#include "resume/saved_stream.hpp"
#include "resume/stream_description.hpp"
#include "rota/cereal.hpp"
#include "rota/checkpoint.hpp"
#include "rota/error.hpp"
#include "rota/snapshot.hpp"
#include "stream/ownership.hpp"
#include "stream/shard_feed.hpp"
#include "stream/stream_facts.hpp"
#include "stream/stream_state.hpp"

namespace rota {
namespace {

using internal::kStreamKind;
using internal::SavedStream;
using internal::ShardProgress;
using internal::ShardRun;
using internal::StreamHead;
using internal::StreamRun;
using internal::StreamState;

/// A shard's row of the cursors, before the numbers of the source's cursor.
struct Row {
  std::int64_t epoch = 0;
  std::int64_t is_done = 0;
  std::int64_t position = 0;
  std::int64_t skip = 0;
  std::int64_t turn = 0;
  std::int64_t owner = 0;
  std::int64_t remaining = internal::kUnknownWeight;
  std::int64_t blob_bytes = 0;
  std::int64_t blob_digest = 0;
};
constexpr std::size_t kShardColumns = 9;
using ShardColumns = std::array<std::int64_t, kShardColumns>;
static_assert(sizeof(Row) == sizeof(ShardColumns));

std::string blobs_name(std::string_view name) { return internal::part_of_loader(name, "blobs"); }

std::int64_t digest_of(std::string_view blob) {
  return static_cast<std::int64_t>(FingerprintBuilder().add(blob).finish().low);
}

// ---- saving ----

std::int64_t remaining(const StreamSource& source, const ShardProgress& place) {
  if (place.is_done) return 0;
  const auto samples = internal::ask_remaining(source, place.shard, place.cursor);
  return samples ? std::clamp<std::int64_t>(*samples - place.skip, 0, kMaxCount) : internal::kUnknownWeight;
}

/// What this rank adds to the tensors, in order of its shards.
struct Rows {
  std::string head;                  // as JSON
  std::vector<std::int64_t> shards;  // that the rows are of
  std::vector<std::int64_t> cursors;
  std::string blobs;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(head, shards, cursors, blobs);
  }
};

std::size_t width_of(const StreamLoader& loader) {
  return kShardColumns + static_cast<std::size_t>(StreamState::facts(loader).cursor_numbers);
}

Rows rows_of(const StreamLoader& loader) {
  const ShardRun& run = StreamState::shards(loader)->run();
  const std::size_t count = run.places.size();
  std::vector<std::size_t> by_shard(count);
  std::iota(by_shard.begin(), by_shard.end(), std::size_t{0});
  std::ranges::sort(by_shard, {}, [&](std::size_t i) { return run.places[i].shard; });
  Rows rows{.head = to_json(kStreamKind, internal::head_of(loader)).dump(),
            .shards = {},
            .cursors = {},
            .blobs = {}};
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
    const auto columns = std::bit_cast<ShardColumns>(row);
    rows.shards.push_back(place.shard.value);
    rows.cursors.insert(rows.cursors.end(), columns.begin(), columns.end());
    rows.cursors.insert(rows.cursors.end(), place.cursor.numbers.begin(), place.cursor.numbers.end());
    rows.cursors.resize(rows.shards.size() * width_of(loader));
    rows.blobs += place.cursor.blob;
  }
  return rows;
}

// Of those of all ranks, in order of rank.
std::string to_text(const std::vector<Rows>& parts, std::size_t width) {
  std::size_t shards = 0;
  for (const Rows& part : parts) shards += part.shards.size();
  std::vector<std::int64_t> cursors(shards * width);
  std::string blobs;
  for (const Rows& part : parts) {
    blobs += part.blobs;
    for (std::size_t i = 0; i < part.shards.size(); ++i) {
      std::copy_n(part.cursors.begin() + static_cast<std::ptrdiff_t>(i * width), width,
                  cursors.begin() + part.shards[i] * static_cast<std::int64_t>(width));
    }
  }
  auto json = internal::OrderedJson::parse(parts.front().head);
  json["tensors"] = {{"cursors", internal::to_json(cursors, width)}, {"blobs", internal::to_base64(blobs)}};
  return internal::sealed(std::move(json));
}

// ---- restoring ----

/// The cursors and blobs of a saved state. All of it is checked before anything is moved.
class SavedShards {
 public:
  /// Throws Error{mismatch} where it is of another source than `loader`'s, Error{corrupt}.
  SavedShards(const SavedStream& saved, const StreamLoader& loader, std::string_view name)
      : saved_(saved),
        cursors_name_(internal::cursors_name(name)),
        blobs_name_(blobs_name(name)),
        head_(saved.head()) {
    saved.require_same_source(loader);
    read_rows();
    lay_out_blobs();
  }

  [[nodiscard]] const StreamRun& run() const noexcept { return head_.run; }
  [[nodiscard]] ShardRun shards_in(const World& world) const;

 private:
  void read_rows();
  [[nodiscard]] bool is_sound(const Row& row) const noexcept;
  void lay_out_blobs();
  [[nodiscard]] std::vector<int> owners_in(const World& world) const;
  [[nodiscard]] ShardProgress place_of(std::size_t shard) const;
  [[nodiscard]] std::size_t width() const noexcept {
    return kShardColumns + static_cast<std::size_t>(head_.cursor_numbers);
  }

  const SavedStream& saved_;
  std::string cursors_name_;
  std::string blobs_name_;
  StreamHead head_;
  std::int64_t bytes_ = 0;  // of all blobs
  std::vector<std::int64_t> cursors_;
  std::vector<Row> rows_;
  std::vector<std::int64_t> blob_begins_;
};

bool SavedShards::is_sound(const Row& row) const noexcept {
  const auto is_count = [](std::int64_t count) { return count >= 0 && count <= kMaxCount; };
  return row.epoch == head_.run.position.epoch && (row.is_done == 0 || row.is_done == 1) &&
         is_count(row.skip) && is_count(row.position) && row.position >= row.skip && row.owner >= 0 &&
         row.owner < head_.world_size &&
         (is_count(row.remaining) || row.remaining == internal::kUnknownWeight) && row.blob_bytes >= 0 &&
         row.blob_bytes <= bytes_ && (row.position > row.skip || row.blob_bytes == 0);
}

void SavedShards::read_rows() {
  cursors_ = saved_.rows(cursors_name_, width());
  bytes_ = saved_.bytes(blobs_name_);
  if (std::ssize(cursors_) != head_.shards * static_cast<std::int64_t>(width())) {
    saved_.refusal().fail(fmt::format("its cursors are not [{}, {}]", head_.shards, width()));
  }
  for (std::size_t at = 0; at < cursors_.size(); at += width()) {
    ShardColumns values{};
    std::copy_n(cursors_.begin() + static_cast<std::ptrdiff_t>(at), kShardColumns, values.begin());
    rows_.push_back(std::bit_cast<Row>(values));
    if (is_sound(rows_.back())) continue;
    saved_.refusal().fail(fmt::format("the cursor of shard {} cannot be one of epoch {}, step {}",
                                      rows_.size() - 1, head_.run.position.epoch, head_.run.position.step));
  }
}

// Blobs lie in order of their owners, then of shards.
void SavedShards::lay_out_blobs() {
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
  if (at != bytes_) {
    saved_.refusal().fail(fmt::format("its {} bytes of blobs are not as long as its cursors say", bytes_));
  }
}

std::vector<int> SavedShards::owners_in(const World& world) const {
  std::vector<int> owners;
  std::vector<std::int64_t> weights;
  for (const Row& row : rows_) {
    owners.push_back(static_cast<int>(row.owner));
    weights.push_back(row.is_done == 1 ? 0 : row.remaining);
  }
  return world.size == head_.world_size ? owners : internal::share_out(weights, world.size);
}

ShardProgress SavedShards::place_of(std::size_t shard) const {
  const Row& row = rows_[shard];
  ShardProgress place{.shard = {static_cast<std::int64_t>(shard)},
                      .is_done = row.is_done == 1,
                      .position = row.position,
                      .skip = row.skip,
                      .cursor = {}};
  if (row.position > row.skip) {
    const auto numbers = cursors_.begin() + static_cast<std::ptrdiff_t>(shard * width() + kShardColumns);
    place.cursor.numbers.assign(numbers, numbers + static_cast<std::ptrdiff_t>(width() - kShardColumns));
  }
  place.cursor.blob.resize(static_cast<std::size_t>(row.blob_bytes));
  if (row.blob_bytes > 0) {
    saved_.read(blobs_name_, blob_begins_[shard], std::as_writable_bytes(std::span(place.cursor.blob)));
  }
  if (digest_of(place.cursor.blob) != row.blob_digest) {
    saved_.refusal().fail(
        fmt::format("the blob of shard {} is not the one that was saved with its cursor; ranks are to save "
                    "in the order of the loader's",
                    shard));
  }
  return place;
}

ShardRun SavedShards::shards_in(const World& world) const {
  ShardRun run{.owners = owners_in(world), .places = {}, .first = 0};
  std::vector<std::size_t> mine;
  for (std::size_t s = 0; s < rows_.size(); ++s) {
    if (run.owners[s] == world.rank) mine.push_back(s);
  }
  std::ranges::stable_sort(mine, {}, [&](std::size_t s) { return rows_[s].turn; });
  for (const std::size_t s : mine) run.places.push_back(place_of(s));
  return run;
}

void restore_from(StreamLoader& loader, const SavedStream& stream, std::string_view name) {
  const SavedShards saved(stream, loader, name);
  ShardRun run = saved.shards_in(loader.world());
  StreamState::shards(loader)->restart(saved.run().position.epoch, std::move(run));
  StreamState::restart(loader, saved.run());
}

}  // namespace

void save(const StreamLoader& loader, Snapshot& snapshot, std::string_view name) {
  if (StreamState::dispatch(loader) != nullptr) return internal::save_dispatch(loader, snapshot, name);
  const Rows rows = rows_of(loader);
  std::vector<RowRange> ranges;
  for (const std::int64_t shard : rows.shards) ranges.push_back({.first = shard, .count = 1});
  const auto cursors = std::as_bytes(std::span(rows.cursors));
  const auto blobs = std::as_bytes(std::span(rows.blobs));
  snapshot.tensor(internal::cursors_name(name), DType::int64, {static_cast<std::int64_t>(width_of(loader))},
                  ranges, std::vector<std::byte>(cursors.begin(), cursors.end()));
  snapshot.tensor(blobs_name(name), DType::uint8, {}, std::ssize(blobs),
                  std::vector<std::byte>(blobs.begin(), blobs.end()));
  snapshot.blob(internal::state_name(name), rows.head);
}

void restore(StreamLoader& loader, const Checkpoint& checkpoint, std::string_view name) {
  if (StreamState::dispatch(loader) != nullptr) return internal::restore_dispatch(loader, checkpoint, name);
  restore_from(loader, internal::StreamInCheckpoint(kStreamKind, checkpoint, internal::state_name(name)),
               name);
}

std::string state(const StreamLoader& loader) {
  if (StreamState::dispatch(loader) != nullptr) return internal::state_of_dispatch(loader);
  std::vector<Rows> parts;
  for (const std::string& part : StreamState::gather(loader, [&] { return to_blob(rows_of(loader)); })) {
    parts.push_back(from_blob<Rows>(part));
  }
  return to_text(parts, width_of(loader));
}

void restore(StreamLoader& loader, std::string_view state) {
  if (StreamState::dispatch(loader) != nullptr) return internal::restore_dispatch(loader, state);
  restore_from(loader, internal::StreamInText(kStreamKind, state), {});
}

std::string internal::describe_stream(const Checkpoint& checkpoint, std::string_view name) {
  return describe(StreamInCheckpoint(kStreamKind, checkpoint, internal::state_name(name)).head());
}

}  // namespace rota
