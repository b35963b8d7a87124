#include "resume/loader_state.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "resume/json.hpp"

namespace rota::internal {
namespace {

Fingerprint digest_lengths(const Loader& loader) {
  FingerprintBuilder digest;
  for (std::int64_t d = 0; d < loader.datasets(); ++d) {
    const ShardPlan& plan = LoaderAccess::order(loader, d).plan();
    if (plan.is_equal()) digest.add("equal");
    if (plan.is_equal()) continue;
    for (std::int64_t s = 0; s < plan.shards(); ++s) digest.add(plan.length(s));
  }
  return digest.finish();
}

OrderIdentity identity_of(const Loader& loader) {
  const Order& order = LoaderAccess::order(loader);
  const LoaderOptions& options = loader.options();
  const std::int64_t last = loader.datasets() - 1;
  return {.version = kOrderVersion,
          .dataset = to_string(loader.fingerprint()),
          .samples = loader.first_id(last).value + LoaderAccess::order(loader, last).plan().samples(),
          .shards = order.plan().shards(),
          .lengths = to_string(digest_lengths(loader)),
          .interleave = order.plan().interleave(),
          .shuffle = std::string(to_string(order.shuffle())),
          .seed = std::to_string(options.seed),
          .block = {.samples = std::min(options.block.samples, kMaxCount),
                    .blocks = std::min(options.block.blocks, kMaxCount)}};
}

std::string describe_dataset(const OrderIdentity& order) {
  return fmt::format("{} samples with fingerprint {}", order.samples, order.dataset);
}

void require_same(const OrderIdentity& then, const OrderIdentity& now, const Refusal& refusal) {
  refusal.require_same("the order's version", then.version, now.version);
  refusal.require_same("the dataset", describe_dataset(then), describe_dataset(now));
  refusal.require_same("the number of shards", then.shards, now.shards);
  refusal.require_same("the digest of the shards' lengths", then.lengths, now.lengths);
  refusal.require_same("interleave", then.interleave, now.interleave);
  refusal.require_same("the seed", then.seed, now.seed);
  refusal.require_same("the shuffle", then.shuffle, now.shuffle);
  if (then.shuffle != to_string(Shuffle::block)) return;
  refusal.require_same("block.samples", then.block.samples, now.block.samples);
  refusal.require_same("block.blocks", then.block.blocks, now.block.blocks);
}

std::size_t mixed(const MixtureState* mixture) { return mixture == nullptr ? 0 : mixture->weights.size(); }

OrderIdentity order_from(const StateObject& object) {
  return {.version = object.number("version"),
          .dataset = object.text("dataset"),
          .samples = object.number("samples"),
          .shards = object.number("shards"),
          .lengths = object.text("lengths"),
          .interleave = object.number("interleave"),
          .shuffle = object.text("shuffle"),
          .seed = object.text("seed"),
          .block = {.samples = object.number("block_samples"), .blocks = object.number("block_blocks")}};
}

LoaderPosition place_from(const StateObject& state) {
  const StateObject position = state.object("position");
  LoaderPosition place{.position = {.epoch = position.number("epoch"),
                                    .consumed = position.number("consumed"),
                                    .step = position.number("step")}};
  if (!state.has("mixture")) return place;
  const StateObject mixture = state.object("mixture");
  place.mixture = {.weights = mixture.numbers("weights"),
                   .changed_at = mixture.number("changed_at"),
                   .counts = mixture.numbers("counts")};
  return place;
}

}  // namespace

LoaderState state_of(const Loader& loader) {
  const LoaderOptions& options = loader.options();
  LoaderState state{.order = identity_of(loader),
                    .place = {.position = loader.position()},
                    .global_batch_size = options.global_batch_size,
                    .tail = std::string(to_string(options.tail)),
                    .epochs = options.epochs == kEndless ? "endless" : std::to_string(options.epochs),
                    .world_size = loader.world().size};
  if (loader.mixture() != nullptr) state.place.mixture = *loader.mixture();
  return state;
}

std::string to_text(const LoaderState& state) {
  const OrderIdentity& order = state.order;
  const Position& at = state.place.position;
  OrderedJson json = new_state(kLoaderKind);
  json["order"] = {{"version", order.version},
                   {"dataset", order.dataset},
                   {"samples", order.samples},
                   {"shards", order.shards},
                   {"lengths", order.lengths},
                   {"interleave", order.interleave},
                   {"shuffle", order.shuffle},
                   {"seed", order.seed},
                   {"block_samples", order.block.samples},
                   {"block_blocks", order.block.blocks}};
  json["position"] = {{"epoch", at.epoch}, {"consumed", at.consumed}, {"step", at.step}};
  if (const auto& mixture = state.place.mixture) {
    json["mixture"] = {
        {"weights", mixture->weights}, {"changed_at", mixture->changed_at}, {"counts", mixture->counts}};
  }
  if (state.skipped) json["skipped"] = *state.skipped;
  json["run"] = {{"global_batch_size", state.global_batch_size},
                 {"tail", state.tail},
                 {"epochs", state.epochs},
                 {"world_size", state.world_size}};
  return json.dump();
}

LoaderState loader_state(std::string_view text, const Refusal& refusal) {
  const Json json = parse_state(text, kLoaderKind, refusal);
  const StateObject state(json, refusal);
  const StateObject run = state.object("run");
  LoaderState saved{.order = order_from(state.object("order")),
                    .place = place_from(state),
                    .global_batch_size = run.number("global_batch_size"),
                    .tail = run.text("tail"),
                    .epochs = run.text("epochs"),
                    .world_size = run.number("world_size")};
  if (state.has("skipped")) saved.skipped = state.number("skipped");
  return saved;
}

void require_fits(const Loader& loader, const LoaderState& saved, const Refusal& refusal) {
  const LoaderPosition& place = saved.place;
  require_same(saved.order, identity_of(loader), refusal);
  refusal.require_same("the number of datasets mixed", mixed(place.mixture ? &*place.mixture : nullptr),
                       mixed(loader.mixture()));
  try {
    LoaderAccess::require_place(loader, place);
  } catch (const Error& error) {
    refusal.fail(fmt::format("its place cannot be ({})", error.what()));
  }
}

std::string describe(const LoaderState& state) {
  const OrderIdentity& order = state.order;
  const Position& at = state.place.position;
  std::string text = fmt::format(
      "{}, {} shards, interleave {}, seed {}, shuffle {} (blocks {} x {}), batch {}, tail {}, {} epochs, "
      "at epoch {}, sample {}, step {}, in a world of {}",
      describe_dataset(order), order.shards, order.interleave, order.seed, order.shuffle, order.block.samples,
      order.block.blocks, state.global_batch_size, state.tail, state.epochs, at.epoch, at.consumed, at.step,
      state.world_size);
  if (const auto& mixture = state.place.mixture) {
    text += fmt::format(", weights {} since sample {} (of each dataset {})", fmt::join(mixture->weights, ":"),
                        mixture->changed_at, fmt::join(mixture->counts, ", "));
  }
  return text;
}

}  // namespace rota::internal
