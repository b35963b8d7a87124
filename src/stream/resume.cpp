#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "loader/resume_state.hpp"
#include "rota/checkpoint.hpp"
#include "rota/error.hpp"
#include "rota/snapshot.hpp"
#include "stream/ownership.hpp"
#include "stream/resume_dispatch.hpp"
#include "stream/resume_refusal.hpp"
#include "stream/shard_feed.hpp"
#include "stream/stream_state.hpp"

namespace rota {
namespace {

using internal::ShardPlace;
using internal::ShardRun;
using internal::StreamRun;
using internal::StreamState;

constexpr std::uint32_t kStateVersion = 1;

/// What the blob "stream/<name>/state" holds.
struct State {
  Fingerprint dataset;
  std::int64_t shards = 0;
  std::int64_t cursor_numbers = 0;
  StreamPosition position;
  std::int64_t epoch_began = 0;
  std::int32_t world_size = 0;
  std::int64_t global_batch_size = 0;  // from here on for people; the new program's count
  std::int64_t epochs = 0;
  std::int32_t workers = 0;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(dataset.high, dataset.low, shards, cursor_numbers, position.epoch, position.step, epoch_began,
            world_size, global_batch_size, epochs, workers);
  }
};

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
constexpr std::size_t kColumns = 9;
using Columns = std::array<std::int64_t, kColumns>;
static_assert(sizeof(Row) == sizeof(Columns));

std::string state_name(std::string_view name) { return fmt::format("stream/{}/state", name); }
std::string cursors_name(std::string_view name) { return fmt::format("stream/{}/cursors", name); }
std::string blobs_name(std::string_view name) { return fmt::format("stream/{}/blobs", name); }

std::int64_t digest_of(std::string_view blob) {
  return static_cast<std::int64_t>(FingerprintBuilder().add(blob).finish().low);
}

State state_of(const StreamLoader& loader) {
  const StreamRun& run = StreamState::run(loader);
  return {.dataset = loader.fingerprint(),
          .shards = loader.source().shards(),
          .cursor_numbers = loader.source().cursor_numbers(),
          .position = run.position,
          .epoch_began = run.epoch_began,
          .world_size = loader.world().size,
          .global_batch_size = loader.options().global_batch_size,
          .epochs = loader.options().epochs,
          .workers = loader.options().workers};
}

// ---- saving ----

std::int64_t remaining(const StreamSource& source, const ShardPlace& place) {
  if (place.is_done) return 0;
  const auto samples = source.remaining(place.shard, place.cursor);
  return samples ? std::max<std::int64_t>(*samples - place.skip, 0) : internal::kUnknownWeight;
}

void append(std::span<const std::int64_t> numbers, std::vector<std::byte>& out) {
  const auto bytes = std::as_bytes(numbers);
  out.insert(out.end(), bytes.begin(), bytes.end());
}

/// What this rank adds to the tensors, in order of its shards.
struct Rows {
  std::vector<RowRange> ranges;
  std::vector<std::byte> cursors;
  std::vector<std::byte> blobs;
};

Rows rows_of(const StreamLoader& loader) {
  const ShardRun& run = StreamState::shards(loader)->run();
  const std::size_t count = run.places.size();
  std::vector<std::size_t> by_shard(count);
  std::iota(by_shard.begin(), by_shard.end(), std::size_t{0});
  std::ranges::sort(by_shard, {}, [&](std::size_t i) { return run.places[i].shard; });
  Rows rows;
  for (const std::size_t i : by_shard) {
    const ShardPlace& place = run.places[i];
    const Row row{.epoch = loader.position().epoch,
                  .is_done = place.is_done ? 1 : 0,
                  .position = place.position,
                  .skip = place.skip,
                  .turn = static_cast<std::int64_t>((i + count - run.first) % count),
                  .owner = loader.world().rank,
                  .remaining = remaining(loader.source(), place),
                  .blob_bytes = std::ssize(place.cursor.blob),
                  .blob_digest = digest_of(place.cursor.blob)};
    append(std::bit_cast<Columns>(row), rows.cursors);
    std::vector<std::int64_t> numbers = place.cursor.numbers;
    numbers.resize(static_cast<std::size_t>(loader.source().cursor_numbers()));
    append(numbers, rows.cursors);
    const auto blob = std::as_bytes(std::span(place.cursor.blob));
    rows.blobs.insert(rows.blobs.end(), blob.begin(), blob.end());
    rows.ranges.push_back({.first = place.shard.value, .count = 1});
  }
  return rows;
}

// ---- restoring ----

/// A loader's state as a checkpoint has it.
class Saved : internal::SavedStream {
 public:
  Saved(const Checkpoint& checkpoint, std::string_view name)
      : SavedStream(checkpoint),
        name_(name),
        state_(internal::from_state_blob<State>(checkpoint, state_name(name), kStateVersion,
                                                "a stream loader")) {}

  void require_same_source(const State& here) const { SavedStream::require_same_source(state_, here); }

  void read_rows();
  [[nodiscard]] StreamRun run() const noexcept {
    return {.position = state_.position, .epoch_began = state_.epoch_began};
  }
  [[nodiscard]] ShardRun shards_in(const World& world) const;

 private:
  [[nodiscard]] bool is_sound(const Row& row) const noexcept;
  void lay_out_blobs();
  [[nodiscard]] std::vector<int> owners_in(const World& world) const;
  [[nodiscard]] ShardPlace place_of(std::size_t shard) const;
  [[nodiscard]] std::size_t width() const noexcept {
    return kColumns + static_cast<std::size_t>(state_.cursor_numbers);
  }

  std::string name_;
  State state_;
  std::vector<std::int64_t> cursors_;
  std::vector<Row> rows_;
  std::vector<std::int64_t> blob_begins_;
};

bool Saved::is_sound(const Row& row) const noexcept {
  return row.epoch == state_.position.epoch && (row.is_done == 0 || row.is_done == 1) && row.skip >= 0 &&
         row.position >= row.skip && row.owner >= 0 && row.owner < state_.world_size &&
         row.remaining >= internal::kUnknownWeight && row.blob_bytes >= 0 &&
         row.blob_bytes <= checkpoint().tensor(blobs_name(name_)).rows();
}

void Saved::read_rows() {
  const auto columns = static_cast<std::int64_t>(width());
  const bool has_shape =
      checkpoint().tensor(cursors_name(name_)).shape == std::vector<std::int64_t>{state_.shards, columns};
  if (has_shape) cursors_ = checkpoint().read<std::int64_t>(cursors_name(name_));
  for (std::size_t at = 0; at < cursors_.size(); at += width()) {
    Columns values{};
    std::copy_n(cursors_.begin() + static_cast<std::ptrdiff_t>(at), kColumns, values.begin());
    rows_.push_back(std::bit_cast<Row>(values));
    if (is_sound(rows_.back())) continue;
    fail(ErrorCode::corrupt, fmt::format("the cursor of shard {} cannot be one of epoch {}, step {}",
                                         rows_.size() - 1, state_.position.epoch, state_.position.step));
  }
  if (!has_shape) {
    fail(ErrorCode::corrupt, fmt::format("its cursors are not [{}, {}]", state_.shards, columns));
  }
  lay_out_blobs();
}

// Blobs lie in order of their owners, then of shards.
void Saved::lay_out_blobs() {
  std::vector<std::size_t> order(rows_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t s) { return rows_[s].owner; });
  blob_begins_.resize(rows_.size());
  const std::int64_t bytes = checkpoint().tensor(blobs_name(name_)).rows();
  std::int64_t at = 0;
  for (const std::size_t s : order) {
    blob_begins_[s] = at;
    at += rows_[s].blob_bytes;
    if (at > bytes) break;
  }
  if (at != bytes) {
    fail(ErrorCode::corrupt, fmt::format("its {} bytes of blobs are not as long as its cursors say", bytes));
  }
}

std::vector<int> Saved::owners_in(const World& world) const {
  std::vector<int> owners;
  std::vector<std::int64_t> weights;
  for (const Row& row : rows_) {
    owners.push_back(static_cast<int>(row.owner));
    weights.push_back(row.is_done == 1 ? 0 : row.remaining);
  }
  return world.size == state_.world_size ? owners : internal::share_out(weights, world.size);
}

ShardPlace Saved::place_of(std::size_t shard) const {
  const Row& row = rows_[shard];
  ShardPlace place{.shard = {static_cast<std::int64_t>(shard)},
                   .is_done = row.is_done == 1,
                   .position = row.position,
                   .skip = row.skip,
                   .cursor = {}};
  if (row.position > row.skip) {
    const auto numbers = cursors_.begin() + static_cast<std::ptrdiff_t>(shard * width() + kColumns);
    place.cursor.numbers.assign(numbers, numbers + static_cast<std::ptrdiff_t>(width() - kColumns));
  }
  place.cursor.blob.resize(static_cast<std::size_t>(row.blob_bytes));
  if (row.blob_bytes > 0) {
    checkpoint().read(blobs_name(name_), {.first = blob_begins_[shard], .count = row.blob_bytes},
                      std::as_writable_bytes(std::span(place.cursor.blob)));
  }
  if (digest_of(place.cursor.blob) != row.blob_digest) {
    fail(ErrorCode::corrupt,
         fmt::format(
             "the blob of shard {} is not the one that was saved with its cursor; ranks are to save in "
             "the order of the loader's",
             shard));
  }
  return place;
}

ShardRun Saved::shards_in(const World& world) const {
  ShardRun run{.owners = owners_in(world), .places = {}, .first = 0};
  std::vector<std::size_t> mine;
  for (std::size_t s = 0; s < rows_.size(); ++s) {
    if (run.owners[s] == world.rank) mine.push_back(s);
  }
  std::ranges::stable_sort(mine, {}, [&](std::size_t s) { return rows_[s].turn; });
  for (const std::size_t s : mine) run.places.push_back(place_of(s));
  return run;
}

}  // namespace

void save(const StreamLoader& loader, Snapshot& snapshot, std::string_view name) {
  if (StreamState::dispatch(loader) != nullptr) return internal::save_dispatch(loader, snapshot, name);
  Rows rows = rows_of(loader);
  const auto columns = static_cast<std::int64_t>(kColumns) + loader.source().cursor_numbers();
  const std::int64_t blob_bytes = std::ssize(rows.blobs);
  snapshot.tensor(cursors_name(name), DType::int64, {columns}, rows.ranges, std::move(rows.cursors));
  snapshot.tensor(blobs_name(name), DType::uint8, {}, blob_bytes, std::move(rows.blobs));
  snapshot.blob(state_name(name), internal::to_state_blob(kStateVersion, state_of(loader)));
}

void restore(StreamLoader& loader, const Checkpoint& checkpoint, std::string_view name) {
  if (StreamState::dispatch(loader) != nullptr) return internal::restore_dispatch(loader, checkpoint, name);
  Saved saved(checkpoint, name);
  saved.require_same_source(state_of(loader));
  saved.read_rows();
  StreamState::shards(loader)->go_on(saved.run().position.epoch, saved.shards_in(loader.world()));
  StreamState::go_on(loader, saved.run());
}

}  // namespace rota
