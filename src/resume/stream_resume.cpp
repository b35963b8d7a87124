#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "checkpoint/snapshot_data.hpp"
#include "core/bytes.hpp"
#include "resume/stream_state.hpp"
#include "rota/checkpoint.hpp"
#include "rota/error.hpp"
#include "rota/snapshot.hpp"
#include "stream/dispatch_feed.hpp"
#include "stream/shard_feed.hpp"
#include "stream/stream_facts.hpp"
#include "stream/stream_loader_impl.hpp"

namespace rota {
namespace {

using internal::kCursors;
using internal::kStreamKind;
using internal::SavedState;
using internal::ShardProgress;
using internal::ShardRun;
using internal::StreamHead;
using internal::StreamParts;
using internal::StreamRun;
using internal::TensorPart;

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
static_assert(sizeof(Row) == kShardColumns * sizeof(std::int64_t));

constexpr std::string_view kBlobs = "blobs";

std::int64_t digest_of(std::string_view blob) {
  return static_cast<std::int64_t>(FingerprintBuilder().add(blob).finish().low);
}

// ---- saving ----

std::int64_t remaining(const StreamSource& source, const ShardProgress& place) {
  if (place.is_done) return 0;
  const auto samples = internal::ask_remaining(source, place.shard, place.cursor);
  return samples ? std::clamp<std::int64_t>(*samples - place.skip, 0, kMaxCount) : internal::kUnknownWeight;
}

// What this rank saves, in order of its shards.
StreamParts parts_of(const StreamLoader& loader) {
  const ShardRun& run = loader.impl().shards()->run();
  const std::size_t count = run.places.size();
  std::vector<std::size_t> by_shard(count);
  std::iota(by_shard.begin(), by_shard.end(), std::size_t{0});
  std::ranges::sort(by_shard, {}, [&](std::size_t i) { return run.places[i].shard; });
  TensorPart cursors{.name = std::string(kCursors),
                     .columns = std::int64_t{kShardColumns} + loader.impl().facts().cursor_numbers,
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
  return {.head = internal::new_stream_state(kStreamKind, loader).dump(),
          .tensors = {std::move(cursors), std::move(blobs)}};
}

// ---- restoring ----

/// The cursors and blobs of a saved state. All of it is checked before anything is moved.
class Saved {
 public:
  /// Throws Error{mismatch} where it is of another source than `loader`'s, Error{corrupt}.
  Saved(const SavedState& saved, const StreamLoader& loader)
      : saved_(saved), head_(internal::head_of(saved)) {
    internal::require_same_source(saved, loader);
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

  const SavedState& saved_;
  StreamHead head_;
  std::int64_t bytes_ = 0;  // of all blobs
  std::vector<std::int64_t> cursors_;
  std::vector<Row> rows_;
  std::vector<std::int64_t> blob_begins_;
};

bool Saved::is_sound(const Row& row) const noexcept {
  const auto is_count = [](std::int64_t count) { return count >= 0 && count <= kMaxCount; };
  return row.epoch == head_.run.position.epoch && (row.is_done == 0 || row.is_done == 1) &&
         is_count(row.skip) && is_count(row.position) && row.position >= row.skip && row.owner >= 0 &&
         row.owner < head_.world_size &&
         (is_count(row.remaining) || row.remaining == internal::kUnknownWeight) && row.blob_bytes >= 0 &&
         row.blob_bytes <= bytes_ && (row.position > row.skip || row.blob_bytes == 0);
}

void Saved::read_rows() {
  cursors_ = saved_.numbers(kCursors, static_cast<std::int64_t>(width()));
  bytes_ = saved_.bytes(kBlobs);
  if (std::ssize(cursors_) != head_.shards * static_cast<std::int64_t>(width())) {
    saved_.fail(fmt::format("its cursors are not [{}, {}]", head_.shards, width()));
  }
  for (std::size_t at = 0; at < cursors_.size(); at += width()) {
    rows_.push_back(internal::load<Row>(std::as_bytes(std::span(cursors_)), at * sizeof(std::int64_t)));
    if (is_sound(rows_.back())) continue;
    saved_.fail(fmt::format("the cursor of shard {} cannot be one of epoch {}, step {}", rows_.size() - 1,
                            head_.run.position.epoch, head_.run.position.step));
  }
}

// Blobs lie in order of their owners, then of shards.
void Saved::lay_out_blobs() {
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
    saved_.fail(fmt::format("its {} bytes of blobs are not as long as its cursors say", bytes_));
  }
}

std::vector<int> Saved::owners_in(const World& world) const {
  std::vector<int> owners;
  std::vector<std::int64_t> weights;
  for (const Row& row : rows_) {
    owners.push_back(static_cast<int>(row.owner));
    weights.push_back(row.is_done == 1 ? 0 : row.remaining);
  }
  return world.size == head_.world_size ? owners : internal::share_out(weights, world.size);
}

ShardProgress Saved::place_of(std::size_t shard) const {
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
    saved_.read(kBlobs, blob_begins_[shard], std::as_writable_bytes(std::span(place.cursor.blob)));
  }
  if (digest_of(place.cursor.blob) != row.blob_digest) {
    saved_.fail(
        fmt::format("the blob of shard {} is not the one that was saved with its cursor; ranks are to save "
                    "in the order of the loader's",
                    shard));
  }
  return place;
}

ShardRun Saved::shards_in(const World& world) const {
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

std::string_view kind_of(const StreamLoader& loader) {
  return loader.impl().dispatch() == nullptr ? kStreamKind : internal::kDispatchKind;
}

StreamParts parts_of_any(const StreamLoader& loader) {
  return loader.impl().dispatch() == nullptr ? parts_of(loader) : internal::parts_of_dispatch(loader);
}

// `from` is what a SavedState is made of.
template <typename... From>
void restore_from(StreamLoader& loader, const From&... from) {
  auto* const dispatch = loader.impl().dispatch();
  if (dispatch != nullptr) dispatch->count_restore();  // whatever fails, on whichever rank
  const SavedState state(kind_of(loader), from...);
  state.require_digest();
  if (dispatch != nullptr) return internal::restore_dispatch(loader, state);
  const Saved saved(state, loader);
  ShardRun run = saved.shards_in(loader.world());
  loader.impl().shards()->restart(saved.run().position.epoch, std::move(run));
  loader.impl().restart(saved.run());
}

}  // namespace

void save(const StreamLoader& loader, Snapshot& snapshot, std::string_view name) {
  checkpoint::SnapshotData& data = SnapshotAccess::data(snapshot);
  const int ranks = loader.world().size;
  if (data.is_alone() && ranks > 1) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("save a stream loader: it is one of {} ranks, each of which alone knows where its "
                    "shards are, and this directory is of one rank; give the directory their "
                    "communicator",
                    ranks));
  }
  internal::save(parts_of_any(loader), snapshot, name);
  const Position at = loader.position();
  snapshot.same(fmt::format("loader/{}", name),
                fmt::format("its place at epoch {}, step {}\na world of {}", at.epoch, at.step, ranks));
  data.share_out(ranks);
}

void restore(StreamLoader& loader, const Checkpoint& checkpoint, std::string_view name) {
  restore_from(loader, checkpoint, name);
}

std::string state(const StreamLoader& loader) {
  return internal::gather_text(loader, [&] { return parts_of_any(loader); });
}

void restore(StreamLoader& loader, std::string_view state) { restore_from(loader, state); }

}  // namespace rota
