#include "rota/resume.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <optional>
#include <utility>

#include "loader/resume_skipped.hpp"
#include "loader/resume_state.hpp"
#include "loader/tally.hpp"

namespace rota {
namespace {

constexpr std::uint32_t kStateVersion = 1;

/// What the blob "loader/<name>/state" holds.
struct LoaderState {
  std::int64_t order_version = kOrderVersion;
  Fingerprint dataset;
  std::int64_t samples = 0;
  std::int64_t shards = 0;
  Fingerprint lengths;  // of the shards
  std::int64_t interleave = 0;
  std::uint64_t seed = 0;
  std::string shuffle;
  BlockShape block;
  Position position;
  std::int64_t global_batch_size = 0;  // from here on for people; the new program's count
  std::string tail;
  std::int64_t epochs = 0;
  std::int32_t workers = 0;
  std::int32_t world_size = 0;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(order_version, dataset.high, dataset.low, samples, shards, lengths.high, lengths.low, interleave,
            seed, shuffle, block.samples, block.blocks, position.epoch, position.consumed, position.step,
            global_batch_size, tail, epochs, workers, world_size);
  }
};

/// What the blob "loader/<name>/mixture" holds.
struct MixtureBlob {
  MixtureState state;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(state.weights, state.changed_at, state.counts);
  }
};

std::string state_name(std::string_view name) { return fmt::format("loader/{}/state", name); }
std::string mixture_name(std::string_view name) { return fmt::format("loader/{}/mixture", name); }
std::string cursors_name(std::string_view name) { return fmt::format("loader/{}/cursors", name); }

Fingerprint digest_lengths(const Loader& loader) {
  FingerprintBuilder digest;
  for (std::int64_t d = 0; d < loader.datasets(); ++d) {
    const ShardPlan& plan = loader.order(d).plan();
    if (plan.is_equal()) digest.add("equal");
    if (plan.is_equal()) continue;
    for (std::int64_t s = 0; s < plan.shards(); ++s) digest.add(plan.length(s));
  }
  return digest.finish();
}

/// Shards of all datasets.
std::int64_t shards_of(const Loader& loader) { return loader.datasets() * loader.order().plan().shards(); }

LoaderState state_of(const Loader& loader) {
  const Order& order = loader.order();
  const LoaderOptions& options = loader.options();
  return {.dataset = loader.fingerprint(),
          .samples = loader.source().size(),
          .shards = order.plan().shards(),
          .lengths = digest_lengths(loader),
          .interleave = order.plan().interleave(),
          .seed = options.seed,
          .shuffle = std::string(to_string(order.shuffle())),
          .block = order.shape(),
          .position = loader.position(),
          .global_batch_size = options.global_batch_size,
          .tail = std::string(to_string(options.tail)),
          .epochs = options.epochs,
          .workers = options.workers,
          .world_size = loader.world().size};
}

// What ranks that read together must have in common of it.
std::string describe(const BadSamples& bad) {
  if (bad.policy == OnBadSample::fail) return "bad samples fail";
  return fmt::format("up to {} bad samples are skipped{}", bad.max_skipped,
                     bad.comm == nullptr ? "" : ", counted together");
}

template <typename Value>
void require_same(const Checkpoint& checkpoint, std::string_view what, const Value& saved,
                  const Value& here) {
  if (saved == here) return;
  throw Error(
      ErrorCode::mismatch,
      fmt::format(
          "restore a loader from {}: {} differs: the checkpoint has {}, this loader has {}; a run can "
          "only go on in the order that it began",
          checkpoint.info().path.string(), what, saved, here));
}

std::string describe_dataset(const LoaderState& state) {
  return fmt::format("{} samples with fingerprint {}", state.samples, to_string(state.dataset));
}

std::string describe(const LoaderState& state) {
  return fmt::format(
      "{}, {} shards, interleave {}, seed {}, shuffle {} (blocks {} x {}), batch {}, tail {}, {} epochs, "
      "at epoch {}, sample {}, step {}, in a world of {}",
      describe_dataset(state), state.shards, state.interleave, state.seed, state.shuffle, state.block.samples,
      state.block.blocks, state.global_batch_size, state.tail, state.epochs, state.position.epoch,
      state.position.consumed, state.position.step, state.world_size);
}

std::string describe(const LoaderState& loader, const std::optional<MixtureState>& mixture) {
  std::string text = describe(loader);
  if (!mixture) return text;
  return text + fmt::format(", weights {} since sample {} (of each dataset {})",
                            fmt::join(mixture->weights, ":"), mixture->changed_at,
                            fmt::join(mixture->counts, ", "));
}

void require_same_order(const Checkpoint& checkpoint, const LoaderState& saved, const LoaderState& here) {
  require_same(checkpoint, "the order's version", saved.order_version, here.order_version);
  require_same(checkpoint, "the dataset", describe_dataset(saved), describe_dataset(here));
  require_same(checkpoint, "the number of shards", saved.shards, here.shards);
  require_same(checkpoint, "the digest of the shards' lengths", to_string(saved.lengths),
               to_string(here.lengths));
  require_same(checkpoint, "interleave", saved.interleave, here.interleave);
  require_same(checkpoint, "the seed", saved.seed, here.seed);
  require_same(checkpoint, "the shuffle", saved.shuffle, here.shuffle);
  if (saved.shuffle != to_string(Shuffle::block)) return;
  require_same(checkpoint, "block.samples", saved.block.samples, here.block.samples);
  require_same(checkpoint, "block.blocks", saved.block.blocks, here.block.blocks);
}

template <typename State>
State read_state(const Checkpoint& checkpoint, const std::string& blob) {
  return internal::from_state_blob<State>(checkpoint, blob, kStateVersion, "a loader");
}

/// The shards whose cursors this place writes, and checks.
RowRange cursor_rows(const Loader& loader) {
  const std::int64_t shards = shards_of(loader);
  const World world = loader.world();
  const std::int64_t first = share(shards, world.rank, world.size);
  return {first, share(shards, world.rank + 1, world.size) - first};
}

std::vector<std::int64_t> cursors_of(const Loader& loader, RowRange rows) {
  std::vector<std::int64_t> cursors(static_cast<std::size_t>(2 * rows.count));
  loader.cursors(rows.first, cursors);
  return cursors;
}

void check_cursors(const Loader& loader, const Checkpoint& checkpoint, std::string_view name) {
  const auto tensor = cursors_name(name);
  const RowRange rows = cursor_rows(loader);
  const std::vector<std::int64_t> shape{shards_of(loader), 2};
  const bool is_same = checkpoint.tensor(tensor).shape == shape &&
                       checkpoint.read<std::int64_t>(tensor, rows) == cursors_of(loader, rows);
  if (is_same) return;
  throw Error(
      ErrorCode::corrupt,
      fmt::format("restore a loader from {}: its cursors are not those of epoch {}, sample {}; take another "
                  "checkpoint",
                  checkpoint.info().path.string(), loader.position().epoch, loader.position().consumed));
}

/// A position, and what else it takes to go there.
struct Place {
  Position position;
  std::optional<MixtureState> mixture = {};
};

Place place_of(const Loader& loader) {
  Place place{.position = loader.position()};
  if (loader.mixture() != nullptr) place.mixture = *loader.mixture();
  return place;
}

void go_to(Loader& loader, const Place& place) {
  if (place.mixture) {
    loader.seek(place.position, *place.mixture);
  } else {
    loader.seek(place.position);
  }
}

}  // namespace

void save(const Loader& loader, Snapshot& snapshot, std::string_view name) {
  RowRange rows = cursor_rows(loader);
  if (loader.world().replica > 0) rows.count = 0;
  const auto cursors = cursors_of(loader, rows);
  const auto bytes = std::as_bytes(std::span(cursors));
  // Named by their numbers, so that two that take themselves for one place are an error and not a longer
  // tensor.
  snapshot.tensor(cursors_name(name), DType::int64, {2}, std::span(&rows, 1),
                  std::vector<std::byte>(bytes.begin(), bytes.end()));
  snapshot.blob(state_name(name), internal::to_state_blob(kStateVersion, state_of(loader)));
  if (loader.mixture() != nullptr) {
    snapshot.blob(mixture_name(name), internal::to_state_blob(kStateVersion, MixtureBlob{*loader.mixture()}));
  }
  internal::save_skipped(loader, snapshot, name);
}

namespace {

/// Each place of the loaders' world is taken by as many ranks, each a replica of its own.
void require_whole(const World& mine, const mpi::Communicator& comm) {
  const auto ranks = mpi::gather(comm, mine.rank);
  const auto sizes = mpi::gather(comm, mine.size);
  const auto replicas = mpi::gather(comm, mine.replica);
  std::map<std::pair<std::int64_t, std::int64_t>, int> places;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (++places[{ranks[r], replicas[r]}] == 1 && sizes[r] == sizes[0] && comm.size() % sizes[0] == 0)
      continue;
    throw Error(
        ErrorCode::mismatch,
        fmt::format("compare loaders: of {} ranks, number {} is rank {} of {}, replica {}, as another one "
                    "is, or in another world; make each loader with comm.world(), or with "
                    "mpi::data_parallel",
                    comm.size(), r, ranks[r], sizes[r], replicas[r]));
  }
}

}  // namespace

void require_same(const Loader& loader, const mpi::Communicator& comm) {
  require_whole(loader.world(), comm);
  LoaderState mine = state_of(loader);
  mine.workers = 0;  // may differ
  const std::string blob = to_blob(mine);
  const std::string text =
      describe(mine, place_of(loader).mixture) + "; " + describe(loader.options().bad_samples);
  const std::string first_blob = mpi::broadcast(comm, blob);
  const std::string first = mpi::broadcast(comm, text);
  mpi::together(comm, "compare loaders", [&] {
    if (blob == first_blob && text == first) return;
    throw Error(
        ErrorCode::mismatch,
        fmt::format("compare loaders: rank 0 has {}; this rank has {}; give all ranks the same dataset "
                    "and options",
                    first, text));
  });
}

std::string describe_loader(const Checkpoint& checkpoint, std::string_view name) {
  const auto state = read_state<LoaderState>(checkpoint, state_name(name));
  std::optional<MixtureState> mixture;
  if (checkpoint.has_blob(mixture_name(name))) {
    mixture = read_state<MixtureBlob>(checkpoint, mixture_name(name)).state;
  }
  const std::string text = describe(state, mixture);
  const std::int64_t skipped = internal::count_skipped(checkpoint, name);
  return skipped == 0 ? text : fmt::format("{}; bad samples skipped: {}", text, skipped);
}

void restore(Loader& loader, const Checkpoint& checkpoint, std::string_view name) {
  const auto saved = read_state<LoaderState>(checkpoint, state_name(name));
  require_same_order(checkpoint, saved, state_of(loader));
  auto skipped = internal::read_skipped(checkpoint, name, loader.world(), saved.samples);
  const Place before = place_of(loader);
  Place place{.position = saved.position};
  if (loader.mixture() != nullptr) {
    place.mixture = read_state<MixtureBlob>(checkpoint, mixture_name(name)).state;
  }
  go_to(loader, place);
  try {
    check_cursors(loader, checkpoint, name);
  } catch (...) {
    go_to(loader, before);
    throw;
  }
  internal::TallyAccess::of(loader).restore(skipped.count, std::move(skipped.samples));
}

}  // namespace rota
