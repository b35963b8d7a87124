#include "order/run_way.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "order/run_state.hpp"

namespace rota::internal {

void put_mixture(const MixtureState& mixture, OrderedJson& json) {
  json["weights"] = mixture.weights;
  json["changed_at"] = mixture.changed_at;
  json["counts"] = mixture.counts;
}

void put_way(const Run& run, OrderedJson& state) {
  const RunPath& path = RunAccess::path(run);
  if (path.plan()->empty() && path.stretches().size() == 1) {
    state.erase(std::string(kWay));
    return;
  }
  if (!path.plan()->empty()) state["rota_state"] = 3;
  OrderedJson way{{"begin", json_of(path.begin())},
                  {"global_batch_size", path.first().batch_size},
                  {"takes_stages", path.takes_stages() ? 1 : 0},
                  {"given_batch_size", RunAccess::order(run)->given_batch_size}};
  if (const MixtureState* const mixture = path.first().mixture()) put_mixture(*mixture, way["mixture"]);
  if (!path.plan()->empty()) way["plan"] = OrderedJson::parse(to_string(*path.plan()));
  for (const ChangeByHand& change : path.changes()) {
    OrderedJson one = json_of(change.at);
    if (change.batch_size != 0) one["global_batch_size"] = change.batch_size;
    if (!change.weights.empty()) one["weights"] = change.weights;
    way["changes"].push_back(std::move(one));
  }
  state[std::string(kWay)] = std::move(way);
}

MixtureState mixture_in(const JsonObject& mixture) {
  return {.weights = mixture.numbers("weights"),
          .changed_at = mixture.number("changed_at"),
          .counts = mixture.numbers("counts")};
}

std::int64_t size_in(const JsonObject& json, std::string_view key) {
  return json.number_in(json.at(key), key, 1, kMaxBatchSize);
}

RunPlace::Way way_in(const JsonObject& json) {
  RunPlace::Way way{.begin = position_in(json.object("begin")),
                    .batch_size = size_in(json, "global_batch_size"),
                    .takes_stages = json.number("takes_stages", 1) == 1,
                    .given_batch_size = size_in(json, "given_batch_size")};
  if (json.has("mixture")) way.mixture = mixture_in(json.object("mixture"));
  try {
    if (json.has("plan")) way.plan = parse_plan(json.at("plan").dump());
  } catch (const Error& error) {
    json.fail("plan", fmt::format("cannot be ({})", error.what()));
  }
  if (!json.has("changes")) return way;
  for (const Json& one : json.array("changes")) {
    const JsonObject change(one, [&](std::string_view member, std::string_view why) {
      json.fail("changes", fmt::format("\"{}\" {}", member, why));
    });
    way.changes.push_back({.at = position_in(change)});
    if (change.has("global_batch_size")) way.changes.back().batch_size = size_in(change, "global_batch_size");
    if (change.has("weights")) way.changes.back().weights = change.numbers("weights");
    const bool is_later =
        way.changes.size() < 2 || way.changes.end()[-2].at.step < way.changes.back().at.step;
    if (!is_later || way.changes.size() > RunPath::kMostChanges)
      json.fail("changes", "are out of order, or too many");
    if (!way.changes.back().weights.empty() && !way.mixture)
      json.fail("changes", "have weights of no mixture");
  }
  return way;
}

}  // namespace rota::internal
