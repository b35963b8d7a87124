#include "order/run_state.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/enumerators.hpp"
#include "core/failure.hpp"
#include "core/text.hpp"
#include "order/open_samples.hpp"
#include "order/run_way.hpp"

namespace rota {
namespace internal {
namespace {

constexpr std::string_view kLengths = "lengths";  // of a recipe: a list for each dataset
constexpr std::string_view kEndlessName = "endless";
constexpr std::int64_t kMostBlocks = std::int64_t{1} << 27;  // that are believed of a text: 1 GiB

// What the order of a run is known by; it must be the same wherever the run goes on.
OrderedJson order_of(const Run& run) {
  const RunOrder& all = *RunAccess::order(run);
  const Order& order = all.orders.front();
  OrderedJson json{{"version", kOrderVersion},
                   {"dataset", to_string(all.fingerprint)},
                   {"samples", run.samples()},
                   {"shards", order.plan().shards()},  // of each dataset
                   {"lengths", to_string(all.lengths)},
                   {"interleave", order.plan().interleave()},
                   {"shuffle", to_string(order.shuffle())},
                   {"seed", std::to_string(all.seed)},
                   {"block_samples", std::min(all.block.samples, kMaxCount)},
                   {"block_blocks", std::min(all.block.blocks, kMaxCount)}};
  for (const auto& [was, now] : all.taken_for)
    json[std::string(kTakenFor)].push_back({to_string(was), to_string(now)});
  return json;
}

// What changes as a run goes on.
void put_place(const Run& run, OrderedJson& state) {
  state["position"] = json_of(run.position());
  if (const MixtureState* const mixture = run.mixture()) put_mixture(*mixture, state["mixture"]);
  put_open(run, state);
}

void put_batches(const Run& run, OrderedJson& state) {
  OrderedJson& json = state["run"];
  json["global_batch_size"] = run.global_batch_size();
  const Position origin = RunAccess::stretch(run).begin;
  if (origin == Position()) {
    json.erase("since");
  } else {
    json["since"] = json_of(origin);
  }
  put_way(run, state);
}

Fingerprint fingerprint_in(const JsonObject& json, std::string_view key) {
  const auto read = parse_fingerprint(json.text(key));
  if (!read) json.fail(key, "is no fingerprint");
  return *read;
}

template <typename Number>
Number number_of(const JsonObject& json, std::string_view key, std::string_view text) {
  const auto number = whole_number<Number>(text);
  if (!number) json.fail(key, "is no number");
  return *number;
}

template <typename Names>
auto index_in(const JsonObject& json, std::string_view key, const Names& names) {
  const auto found = std::ranges::find(names, json.text(key));
  if (found == names.end()) json.fail(key, fmt::format("is none of {}", fmt::join(names, ", ")));
  return found - names.begin();
}

// Runs of equal lengths: pairs of a length and how often it comes.
OrderedJson run_lengths(const std::vector<std::int64_t>& lengths) {
  OrderedJson runs = OrderedJson::array();
  for (auto first = lengths.begin(); first != lengths.end();) {
    const auto last = std::find_if(first, lengths.end(), [&](std::int64_t n) { return n != *first; });
    runs.push_back({*first, last - first});
    first = last;
  }
  return runs;
}

std::vector<std::int64_t> read_lengths(const JsonObject& json, std::string_view key, std::int64_t most) {
  std::vector<std::int64_t> lengths;
  for (const Json& run : json.array(key)) {
    if (!run.is_array() || run.size() != 2) json.fail(key, "is no list of pairs");
    const std::int64_t times = json.number_in(run[1], key, 1, most - std::ssize(lengths));
    lengths.insert(lengths.end(), static_cast<std::size_t>(times), json.number_in(run[0], key, 0, kMaxCount));
  }
  return lengths;
}

std::vector<RunData> read_recipe(const StateText& saved) {
  std::vector<RunData> data;
  const JsonObject state = saved.object();
  const auto datasets = static_cast<std::int64_t>(state.array(kLengths).size());
  for (const Json& json : state.array(kLengths)) {
    const JsonObject one(json, [&](std::string_view member, std::string_view why) {
      state.fail(kLengths, fmt::format("\"{}\" {}", member, why));
    });
    data.push_back({.samples = one.number("samples"),
                    .shard_lengths = read_lengths(one, "shards", kMaxShards / datasets),
                    .block_lengths = read_lengths(one, "blocks", kMostBlocks / datasets)});
  }
  return data;
}

// What there is without lengths: all shards equal.
std::vector<RunData> read_sizes(const StateText& saved) {
  const JsonObject state = saved.object();
  if (!state.has("mixture")) return {{.samples = state.object("order").number("samples")}};
  const JsonObject mixture = state.object("mixture");
  if (!mixture.has("sizes")) {
    saved.fail(ErrorCode::unsupported,
               "it is of a mixture, and does not have the sizes of its datasets; give these");
  }
  std::vector<RunData> data;
  for (const std::int64_t size : mixture.numbers("sizes")) data.push_back({.samples = size});
  return data;
}

RunOptions read_options(const JsonObject& state) {
  const JsonObject order = state.object("order");
  const JsonObject run = state.object("run");
  const std::string& epochs = run.text("epochs");
  RunOptions options{
      .global_batch_size = run.number("global_batch_size"),
      .shards = order.number("shards"),
      .interleave = order.number("interleave"),
      .shuffle = static_cast<Shuffle>(index_in(order, "shuffle", kShuffles)),
      .seed = number_of<std::uint64_t>(order, "seed", order.text("seed")),
      .block = {.samples = order.number("block_samples"), .blocks = order.number("block_blocks")},
      .tail = static_cast<Tail>(index_in(run, "tail", kTails)),
      .epochs = epochs == kEndlessName ? kEndless : number_of<std::int64_t>(run, "epochs", epochs),
      .fingerprint = fingerprint_in(order, "dataset")};
  if (state.has(kWay)) options.global_batch_size = state.object(kWay).number("given_batch_size");
  if (!state.has("mixture")) return options;
  const JsonObject mixture = state.object("mixture");
  for (const std::int64_t weight : mixture.numbers("weights"))
    options.weights.push_back(static_cast<double>(weight));
  if (!mixture.has("end")) return options;
  options.end = static_cast<MixtureEnd>(index_in(mixture, "end", kMixtureEnds));
  options.steps = mixture.number("steps");
  return options;
}

std::vector<std::int64_t> given_in(const JsonObject& state) {
  if (!state.has("mixture")) return {};
  const JsonObject mixture = state.object("mixture");
  return mixture.numbers(mixture.has("given") ? "given" : "weights");
}

// Names, and what datasets are known by, where they have names.
void add_names(const JsonObject& state, std::vector<RunData>& data) {
  if (!state.has("mixture") || !state.object("mixture").has("datasets")) return;
  const auto named = datasets_in(state.object("mixture"));
  if (named.size() != data.size())
    state.object("mixture").fail("datasets", "are others than there are sizes");
  for (std::size_t d = 0; d < data.size(); ++d) std::tie(data[d].name, data[d].fingerprint) = named[d];
}

// Whether there are lengths for what takes units.
bool lacks_lengths(const std::vector<RunData>& data, const RunOptions& options) {
  return options.shuffle == Shuffle::block && options.block.samples == 0 &&
         std::ranges::any_of(data,
                             [](const RunData& one) { return one.block_lengths.empty() && one.samples > 0; });
}

}  // namespace

std::vector<std::pair<std::string, Fingerprint>> datasets_in(const JsonObject& mixture) {
  std::vector<std::pair<std::string, Fingerprint>> all;
  for (const Json& one : mixture.array("datasets")) {
    const JsonObject dataset(one, [&](std::string_view member, std::string_view why) {
      mixture.fail("datasets", fmt::format("\"{}\" {}", member, why));
    });
    all.emplace_back(dataset.text("name"), fingerprint_in(dataset, "dataset"));
  }
  return all;
}

OrderedJson json_of(const Position& at) {
  return {{"epoch", at.epoch}, {"consumed", at.consumed}, {"step", at.step}};
}

Position position_in(const JsonObject& json) {
  return {.epoch = json.number("epoch"), .consumed = json.number("consumed"), .step = json.number("step")};
}

OrderedJson state_of(const Run& run, std::optional<std::int64_t> skipped, std::int64_t world_size) {
  OrderedJson state = new_state(kLoaderKind);
  state["order"] = order_of(run);
  put_place(run, state);
  if (const auto* const mixed = std::get_if<MixtureSteps>(&RunAccess::steps(run))) {
    OrderedJson& json = state["mixture"];
    json["given"] = RunAccess::order(run)->given;
    json["sizes"] = mixed->lengths();
    json["end"] = kMixtureEnds[static_cast<std::size_t>(mixed->rules().end)];
    json["steps"] = std::min(mixed->rules().steps, kMaxCount);
    const RunOrder& order = *RunAccess::order(run);
    for (std::size_t d = 0; d < order.names.size(); ++d)
      json["datasets"].push_back({{"name", order.names[d]}, {"dataset", to_string(order.known[d])}});
  }
  if (skipped) state["skipped"] = *skipped;
  const RunOptions options = run.options();
  state["run"] = {
      {"global_batch_size", options.global_batch_size},
      {"tail", to_string(options.tail)},
      {"epochs", options.epochs == kEndless ? std::string(kEndlessName) : std::to_string(options.epochs)},
      {"world_size", world_size}};
  put_batches(run, state);
  return state;
}

void put_where(const Run& run, OrderedJson& state) {
  put_place(run, state);
  put_batches(run, state);
}

Run steps_of(const StateText& saved) {
  RunOptions options = read_options(saved.object());
  options.shards = 1;
  options.interleave = 0;
  options.shuffle = Shuffle::none;
  const std::vector<RunData> sizes = read_sizes(saved);
  const std::vector<std::int64_t> given = given_in(saved.object());
  const RunPlace place = place_of(saved.object());
  try {
    Run run = RunAccess::make(sizes, options, given);
    RunAccess::go_to(run, place, true);
    return run;
  } catch (const Error& error) {
    saved.fail(fmt::format("it cannot be ({})", error.what()));
  }
}

RunPlace place_of(const JsonObject& state) {
  RunPlace place{.position = position_in(state.object("position"))};
  const JsonObject run = state.object("run");
  place.batch_size = size_in(run, "global_batch_size");
  if (run.has("since")) place.origin = position_in(run.object("since"));
  if (state.has("mixture")) place.mixture = mixture_in(state.object("mixture"));
  if (state.has(kWay)) place.way = way_in(state.object(kWay));
  return place;
}

bool has_tail_of(const JsonObject& state, const Run& run) {
  return state.object("run").text("tail") == to_string(RunAccess::tail(run));
}

Run run_of(const StateText& saved, const std::vector<RunData>& given) {
  refuse_part(saved);
  const JsonObject state = saved.object();
  const JsonObject order = state.object("order");
  if (order.number("version") != kOrderVersion) {
    saved.fail(ErrorCode::mismatch, fmt::format("its order is of version {}, and this rota has {}",
                                                order.number("version"), kOrderVersion));
  }
  const bool has_lengths = !given.empty() || state.has(kLengths);
  std::vector<RunData> data = !given.empty()        ? given
                              : state.has(kLengths) ? read_recipe(saved)
                                                    : read_sizes(saved);
  if (given.empty()) add_names(state, data);
  const auto refuse_lengths = [&] {
    saved.fail(has_lengths ? ErrorCode::mismatch : ErrorCode::unsupported,
               has_lengths
                   ? "the lengths given are not those of which it has a digest"
                   : "its shards or blocks are files or units, and it has no more than a digest of their "
                     "lengths; give these, or take what recipe() returned");
  };
  const RunPlace place = place_of(state);
  try {
    const RunOptions options = read_options(state);
    std::vector<std::int64_t> weights = given_in(state);
    if (lacks_lengths(data, options)) refuse_lengths();
    if (weights.size() != options.weights.size()) saved.fail("its weights are of several numbers");
    Run run = RunAccess::make(data, options, std::move(weights));
    const Json own(order_of(run));
    for (const auto& [key, value] : own.items()) {
      if (order.at(key) == value) continue;
      if (key == "lengths" || key == "samples") refuse_lengths();
      order.fail(key, "is none that a run has");
    }
    RunAccess::go_to(run, place, true);
    RunAccess::set_open(run, open_in(state, run));
    return run;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::corrupt || error.code() == ErrorCode::mismatch ||
        error.code() == ErrorCode::unsupported) {
      throw;
    }
    const bool are_wrong = !given.empty() && error.code() == ErrorCode::invalid_argument;  // the lengths
    saved.fail(are_wrong ? ErrorCode::mismatch : ErrorCode::corrupt,
               fmt::format("it cannot be ({})", error.what()));
  }
}

std::string described(const Run& run) {
  const RunOrder& all = *RunAccess::order(run);
  const RunOptions options = run.options();
  const Position at = run.position();
  std::string lines = fmt::format(
      "dataset {} with {} samples\nglobal_batch_size {}\nshards {}\nlengths {}\ninterleave {}\nshuffle "
      "{}\nseed {}\nblock {} x {}\ntail {}\nepochs {}\nits place at epoch {}, sample {}, step {}\n",
      to_string(all.fingerprint), run.samples(), options.global_batch_size, options.shards,
      to_string(all.lengths), options.interleave, to_string(options.shuffle), options.seed,
      options.block.samples, options.block.blocks, to_string(options.tail), options.epochs, at.epoch,
      at.consumed, at.step);
  for (const auto& [was, now] : all.taken_for)
    lines += fmt::format("dataset {} in the place of {}\n", to_string(now), to_string(was));
  if (const MixtureState* const state = run.mixture()) {
    lines += fmt::format("a mixture by weights {} since sample {}\nits end by rule {} after {} steps\n",
                         fmt::join(state->weights, ":"), state->changed_at, static_cast<int>(options.end),
                         options.steps);
  }
  if (!all.names.empty()) lines += fmt::format("datasets {}\n", fmt::join(all.names, ", "));
  if (!run.plan().empty()) lines += fmt::format("plan {}\n", digest_of_plan(run.plan()));
  if (const auto open = RunAccess::open(run); !open.empty())
    lines += fmt::format("{} samples that come again, from turn {} of epoch {} on\n", open.size(),
                         open.front().turn, open.front().epoch);
  return lines;
}

std::string describe_dataset(const JsonObject& order) {
  return fmt::format("{} samples with fingerprint {}", order.number("samples"), order.text("dataset"));
}

std::string describe(const JsonObject& state) {
  const JsonObject order = state.object("order");
  const JsonObject run = state.object("run");
  const RunPlace place = place_of(state);
  const Position at = place.position;
  const auto& mixture = place.mixture;
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
  if (place.way && !place.way->plan.empty())
    text += fmt::format(", plan {}", digest_of_plan(place.way->plan));
  return text;
}

}  // namespace internal

Run Run::from(std::string_view state, const std::vector<RunData>& lengths) {
  const internal::StateText saved("read a run from a text", internal::kLoaderKind, state);
  saved.require_digest();
  Run run = internal::run_of(saved, lengths);
  run.text_ = std::make_shared<const std::string>(state);
  return run;
}

std::string Run::state() const {
  if (text_ == nullptr) return internal::sealed(internal::state_of(*this, {}, 1));
  auto state = internal::OrderedJson::parse(*text_);
  state.erase(std::string(internal::kLengths));  // of a recipe
  const auto then = state["position"];
  internal::put_place(*this, state);
  // Older texts do not say since when batches are as they are.
  if (then != state["position"] || state["run"]["global_batch_size"] != global_batch_size() ||
      state.contains(internal::kWay) || !plan().empty() || !path_->changes().empty())
    internal::put_batches(*this, state);
  return internal::sealed(std::move(state));
}

std::string Run::recipe() const {
  auto state = internal::OrderedJson::parse(this->state());
  auto& all = state[internal::kLengths] = internal::OrderedJson::array();
  for (const RunData& one : data()) {
    all.push_back({{"samples", one.samples},
                   {"shards", internal::run_lengths(one.shard_lengths)},
                   {"blocks", internal::run_lengths(one.block_lengths)}});
  }
  return internal::sealed(std::move(state));
}

}  // namespace rota
