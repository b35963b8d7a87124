#include "resume/loader_state.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace rota::internal {
namespace {

// What the order of a run is known by; it must be the same wherever the run goes on.
OrderedJson order_of(const Loader& loader) {
  const std::vector<Order>& orders = loader.impl().run_order.orders;
  const Order& order = orders.front();
  const LoaderOptions& options = loader.options();
  const std::int64_t last = loader.datasets() - 1;
  return {{"version", kOrderVersion},
          {"dataset", to_string(loader.fingerprint())},
          {"samples", loader.first_id(last).value + orders.back().plan().samples()},
          {"shards", order.plan().shards()},  // of each dataset
          {"lengths", to_string(digest_lengths(orders))},
          {"interleave", order.plan().interleave()},
          {"shuffle", to_string(order.shuffle())},
          {"seed", std::to_string(options.seed)},
          {"block_samples", std::min(options.block.samples, kMaxCount)},
          {"block_blocks", std::min(options.block.blocks, kMaxCount)}};
}

std::string describe_dataset(const JsonObject& order) {
  return fmt::format("{} samples with fingerprint {}", order.number("samples"), order.text("dataset"));
}

// What is known of the samples of a dataset, then and now.
struct ContentChange {
  std::int64_t same = 0;
  std::string first;  // that is another: where it lies
};

ContentChange compare_content(const Loader& loader, const JsonObject& saved) {
  ContentChange change;
  if (!saved.has("content")) return change;
  const std::vector<SampleContent>& now = loader.impl().content();
  const std::vector<std::int64_t> then = saved.numbers("content");
  for (std::size_t k = 0; k < std::min(then.size(), now.size()); ++k) {
    if (then[k] == 0 || now[k].digest == 0) continue;  // it could not be read
    if (then[k] == now[k].digest) ++change.same;
    if (then[k] != now[k].digest && change.first.empty()) change.first = now[k].where + " ";
  }
  return change;
}

void require_same_dataset(const Loader& loader, const SavedState& saved, const JsonObject& then,
                          const JsonObject& now) {
  const ContentChange content = compare_content(loader, saved.object());
  const bool is_same = describe_dataset(then) == describe_dataset(now);
  if (!is_same && then.number("samples") == now.number("samples") && content.same > 0 &&
      content.first.empty()) {
    saved.fail(ErrorCode::mismatch,
               "the dataset differs in names or shapes alone, as far as was looked; give its files the "
               "names that they had");
  }
  saved.require_same("the dataset", describe_dataset(then), describe_dataset(now));
  if (content.first.empty()) return;
  saved.fail(ErrorCode::mismatch,
             fmt::format("the content of the dataset differs: {}has changed since {} was made; {}",
                         content.first, saved.where(), saved.rule()));
}

void require_same(const Loader& loader, const SavedState& saved, const JsonObject& now) {
  const JsonObject then = saved.object().object("order");
  static_cast<void>(then.text("lengths"));  // a state without it is damaged, of whichever dataset it is
  const auto numbers = [&](std::string_view part, std::string_view key) {
    saved.require_same(part, then.number(key), now.number(key));
  };
  const auto texts = [&](std::string_view part, std::string_view key) {
    saved.require_same(part, then.text(key), now.text(key));
  };
  numbers("the order's version", "version");
  require_same_dataset(loader, saved, then, now);
  texts("the shuffle", "shuffle");
  if (then.number("shards") != now.number("shards")) {
    saved.fail(
        ErrorCode::mismatch,
        fmt::format("the number of shards differs: {} has {}, this loader has {}; set shards to {}",
                    saved.where(), then.number("shards"), now.number("shards"), then.number("shards")));
  }
  texts("the digest of the shards' lengths", "lengths");
  numbers("interleave", "interleave");
  texts("the seed", "seed");
  if (now.text("shuffle") != to_string(Shuffle::block)) return;
  numbers("block.samples", "block_samples");
  numbers("block.blocks", "block_blocks");
}

std::size_t mixed(const MixtureState* mixture) { return mixture == nullptr ? 0 : mixture->weights.size(); }

}  // namespace

LoaderPosition place_of(const JsonObject& state) {
  const JsonObject position = state.object("position");
  LoaderPosition place{.position = {.epoch = position.number("epoch"),
                                    .consumed = position.number("consumed"),
                                    .step = position.number("step")}};
  if (!state.has("mixture")) return place;
  const JsonObject mixture = state.object("mixture");
  place.mixture = {.weights = mixture.numbers("weights"),
                   .changed_at = mixture.number("changed_at"),
                   .counts = mixture.numbers("counts")};
  return place;
}

void add_content(const Loader& loader, OrderedJson& state) {
  for (const SampleContent& sample : loader.impl().content()) state["content"].push_back(sample.digest);
}

OrderedJson state_of(const Loader& loader, std::optional<std::int64_t> skipped) {
  const LoaderOptions& options = loader.options();
  if (options.evaluation) {
    throw Error(
        ErrorCode::invalid_argument,
        "save or restore a loader: one for evaluation has no state, for it begins anew; leave it out");
  }
  const Position at = loader.position();
  OrderedJson json = new_state(kLoaderKind);
  json["order"] = order_of(loader);
  json["position"] = {{"epoch", at.epoch}, {"consumed", at.consumed}, {"step", at.step}};
  if (const MixtureState* const mixture = loader.mixture()) {
    json["mixture"] = {{"weights", mixture->weights},
                       {"changed_at", mixture->changed_at},
                       {"counts", mixture->counts},
                       {"given", loader.impl().run_order.mix_plan->given}};
  }
  if (skipped) json["skipped"] = *skipped;
  json["run"] = {{"global_batch_size", options.global_batch_size},
                 {"tail", to_string(options.tail)},
                 {"epochs", options.epochs == kEndless ? "endless" : std::to_string(options.epochs)},
                 {"world_size", loader.world().size}};
  return json;
}

LoaderPosition require_fits(const Loader& loader, const SavedState& saved) {
  const Json own(state_of(loader));
  static_cast<void>(describe(saved.object()));  // also what is not compared must be there
  LoaderPosition place = place_of(saved.object());
  require_same(loader, saved, {own["order"], {}});
  saved.require_same("the number of datasets mixed", mixed(place.mixture ? &*place.mixture : nullptr),
                     mixed(loader.mixture()));
  try {
    loader.impl().require_place(place);
  } catch (const Error& error) {
    saved.fail(fmt::format("its place cannot be ({})", error.what()));
  }
  return place;
}

std::string describe(const JsonObject& state) {
  const JsonObject order = state.object("order");
  const JsonObject run = state.object("run");
  const auto [at, mixture] = place_of(state);
  std::string text = fmt::format(
      "{}, {} shards, interleave {}, seed {}, shuffle {} (blocks {} x {}), batch {}, tail {}, {} epochs, "
      "at epoch {}, sample {}, step {}, in a world of {}",
      describe_dataset(order), order.number("shards"), order.number("interleave"), order.text("seed"),
      order.text("shuffle"), order.number("block_samples"), order.number("block_blocks"),
      run.number("global_batch_size"), run.text("tail"), run.text("epochs"), at.epoch, at.consumed, at.step,
      run.number("world_size"));
  if (mixture) {
    text += fmt::format(", weights {} since sample {} (of each dataset {})", fmt::join(mixture->weights, ":"),
                        mixture->changed_at, fmt::join(mixture->counts, ", "));
  }
  return text;
}

}  // namespace rota::internal
