#include "rota/resume.hpp"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "checkpoint/snapshot_data.hpp"
#include "loader/loader_impl.hpp"
#include "order/weighted_turns.hpp"
#include "resume/json.hpp"
#include "resume/loader_state.hpp"
#include "resume/saved_stream.hpp"
#include "resume/skipped.hpp"

namespace rota {
namespace {

using internal::LoaderPosition;
using internal::Refusal;
using internal::StateObject;

Refusal refusal_of(std::string from, std::string_view saved) {
  return {.what = "a loader",
          .from = std::move(from),
          .saved = saved,
          .rule = "a run can only go on in the order that it began"};
}
Refusal refusal_of(const Checkpoint& checkpoint) {
  return refusal_of(checkpoint.info().path.string(), "the checkpoint");
}

internal::Json parse_loader(std::string_view state, const Refusal& refusal) {
  return internal::parse_state(state, internal::kLoaderKind, refusal);
}

/// Shards of all datasets.
std::int64_t shards_of(const Loader& loader) {
  return loader.datasets() * loader.impl().run_order.orders.front().plan().shards();
}

/// The shards whose cursors this place in `world` writes, and checks.
RowRange cursor_rows(const Loader& loader, const World& world) {
  const std::int64_t shards = shards_of(loader);
  const std::int64_t first = share(shards, world.rank, world.size);
  return {first, share(shards, world.rank + 1, world.size) - first};
}

std::vector<std::int64_t> cursors_of(const Loader& loader, const LoaderPosition& place, RowRange rows) {
  std::vector<std::int64_t> cursors(static_cast<std::size_t>(2 * rows.count));
  loader.impl().cursors(place, rows.first, cursors);
  return cursors;
}

[[noreturn]] void refuse_cursors(const LoaderPosition& place, const Refusal& refusal) {
  refusal.fail(fmt::format("its cursors are not those of epoch {}, sample {}", place.position.epoch,
                           place.position.consumed));
}

void check_cursors(const Loader& loader, const LoaderPosition& place, const Checkpoint& checkpoint,
                   std::string_view name, const Refusal& refusal) {
  const auto tensor = internal::cursors_name(name);
  const RowRange rows = cursor_rows(loader, loader.world());
  refusal.require_tensor(checkpoint, tensor, DType::int64, {2});
  if (checkpoint.tensor(tensor).rows() != shards_of(loader) ||
      checkpoint.read<std::int64_t>(tensor, rows) != cursors_of(loader, place, rows)) {
    refuse_cursors(place, refusal);
  }
}

// Unless cursors fit the position as far as they tell without the loader.
void require_cursors(const StateObject& state, const Checkpoint& checkpoint, std::string_view name,
                     const Refusal& refusal) {
  const auto tensor = internal::cursors_name(name);
  const LoaderPosition place = internal::place_of(state);
  const std::int64_t datasets = place.mixture ? std::ssize(place.mixture->weights) : 1;
  refusal.require_tensor(checkpoint, tensor, DType::int64, {2});
  const std::int64_t shards = checkpoint.tensor(tensor).rows();
  bool is_good =
      datasets > 0 && shards % datasets == 0 && shards / datasets == state.object("order").number("shards");
  if (is_good && !place.mixture) {  // whose datasets have epochs of their own
    const auto cursors = checkpoint.read<std::int64_t>(tensor);
    std::int64_t consumed = 0;
    for (std::size_t i = 0; is_good && i < cursors.size(); i += 2) {
      is_good = cursors[i] == place.position.epoch && cursors[i + 1] >= 0 &&
                !__builtin_add_overflow(consumed, cursors[i + 1], &consumed);
    }
    is_good = is_good && consumed == place.position.consumed;
  }
  if (!is_good) refuse_cursors(place, refusal);
}

// The program's own weights count from here on, if they are others than those of the program that saved.
MixtureState mixture_of(const Loader& loader, const LoaderPosition& place, const StateObject& saved) {
  const std::vector<std::int64_t>& own = loader.impl().run_order.mix_plan->given;
  const StateObject mixture = saved.object("mixture");
  if (!mixture.has("given") || mixture.numbers("given") == own) return *place.mixture;
  return internal::WeightedTurns(*place.mixture).changed(own, place.position.consumed);
}

// All that could be refused was looked at.
void go_to(Loader& loader, const LoaderPosition& place, const StateObject& saved,
           internal::SavedSkips skipped) {
  if (place.mixture) {
    loader.seek(place.position, mixture_of(loader, place, saved));
  } else {
    loader.seek(place.position);
  }
  loader.impl().counter.restore(skipped.count, std::move(skipped.samples));
}

}  // namespace

std::string internal::kind_of_loader(const Checkpoint& checkpoint, std::string_view name) {
  const Refusal refusal = refusal_of(checkpoint);
  const Json state = parse_state(checkpoint.blob(internal::state_name(name)), refusal);
  return StateObject(state, refusal).text("kind");
}

void save(const Loader& loader, Snapshot& snapshot, std::string_view name) {
  checkpoint::SnapshotData& data = SnapshotAccess::data(snapshot);
  if (data.is_alone() && loader.world().rank > 0) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("save a loader of rank {} of {} into a directory of this process alone: rank 0 saves for "
                    "all of them, or all save together into one that they open over their communicator",
                    loader.world().rank, loader.world().size));
  }
  const World world = data.is_alone() ? World{} : loader.world();
  RowRange rows = cursor_rows(loader, world);
  if (world.replica > 0) rows.count = 0;
  std::vector<std::int64_t> cursors(static_cast<std::size_t>(2 * rows.count));
  loader.cursors(rows.first, cursors);
  const auto bytes = std::as_bytes(std::span(cursors));
  // Named by their numbers, so that two that take themselves for one place are an error and not a longer
  // tensor.
  snapshot.tensor(internal::cursors_name(name), DType::int64, {2}, std::span(&rows, 1),
                  std::vector<std::byte>(bytes.begin(), bytes.end()));
  internal::OrderedJson json = internal::state_of(loader);
  if (world.rank == 0) internal::add_content(loader, json);  // the other blobs are not saved
  snapshot.blob(internal::state_name(name), json.dump());
  internal::save_skipped(loader, snapshot, name, data.is_alone());
  snapshot.same(fmt::format("loader/{}", name),
                loader.impl().described() + fmt::format("a world of {}", loader.world().size));
  data.share_out(world.size);
}

void restore(Loader& loader, const Checkpoint& checkpoint, std::string_view name) {
  const Refusal refusal = refusal_of(checkpoint);
  const internal::Json json = parse_loader(checkpoint.blob(internal::state_name(name)), refusal);
  const StateObject saved(json, refusal);
  const LoaderPosition place = require_fits(loader, saved, refusal);
  check_cursors(loader, place, checkpoint, name, refusal);
  const std::int64_t samples = saved.object("order").number("samples");
  go_to(loader, place, saved, internal::read_skipped(checkpoint, name, loader.world(), samples, refusal));
}

std::string state(const Loader& loader) {
  internal::OrderedJson json = internal::state_of(loader, loader.impl().counter.known(loader.world()));
  internal::add_content(loader, json);
  return internal::sealed(std::move(json));
}

void restore(Loader& loader, std::string_view state) {
  const Refusal refusal = refusal_of("a text", "the text");
  const internal::Json json = parse_loader(state, refusal);
  const StateObject saved(json, refusal);
  const std::int64_t skipped = saved.has("skipped") ? saved.number("skipped") : 0;
  const LoaderPosition place = require_fits(loader, saved, refusal);
  require_digest(json, refusal);
  go_to(loader, place, saved, {.count = skipped, .samples = {}});
}

std::string describe_loader(const Checkpoint& checkpoint, std::string_view name) {
  const std::string kind = internal::kind_of_loader(checkpoint, name);
  if (kind == internal::kStreamKind || kind == internal::kDispatchKind) {
    return internal::describe_stream(kind, checkpoint, name);
  }
  const Refusal refusal = refusal_of(checkpoint);
  const internal::Json json = parse_loader(checkpoint.blob(internal::state_name(name)), refusal);
  const StateObject state(json, refusal);
  require_cursors(state, checkpoint, name, refusal);
  const std::string text = describe(state);
  const std::int64_t skipped = internal::count_skipped(checkpoint, name, refusal);
  return skipped == 0 ? text : fmt::format("{}; bad samples skipped: {}", text, skipped);
}

}  // namespace rota
