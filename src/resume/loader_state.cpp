#include "resume/loader_state.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "order/open_samples.hpp"

namespace rota::internal {
namespace {

// What is known of the samples of a dataset, then and now.
struct ContentChange {
  std::int64_t same = 0;
  std::string first;  // that is another: where it lies
};

ContentChange compare_content(const JsonObject& saved, const AskContent& ask_content) {
  ContentChange change;
  if (!saved.has("content")) return change;
  const std::vector<SampleContent>& now = ask_content();
  const std::vector<std::int64_t> then = saved.numbers("content");
  for (std::size_t k = 0; k < std::min(then.size(), now.size()); ++k) {
    if (then[k] == 0 || now[k].digest == 0) continue;  // it could not be read
    if (then[k] == now[k].digest) ++change.same;
    if (then[k] != now[k].digest && change.first.empty()) change.first = now[k].where + " ";
  }
  return change;
}

void require_same_dataset(const SavedState& saved, const JsonObject& then, const JsonObject& now,
                          const AskContent& ask_content) {
  const ContentChange content = compare_content(saved.object(), ask_content);
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

void require_same(const SavedState& saved, const JsonObject& now, const AskContent& ask_content) {
  const JsonObject then = saved.object().object("order");
  static_cast<void>(then.text("lengths"));  // a state without it is damaged, of whichever dataset it is
  const auto numbers = [&](std::string_view part, std::string_view key) {
    saved.require_same(part, then.number(key), now.number(key));
  };
  const auto texts = [&](std::string_view part, std::string_view key) {
    saved.require_same(part, then.text(key), now.text(key));
  };
  numbers("the order's version", "version");
  require_same_dataset(saved, then, now, ask_content);
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

void add_content(const std::vector<SampleContent>& content, OrderedJson& state) {
  for (const SampleContent& sample : content) state["content"].push_back(sample.digest);
}

Run moved_to(const SavedState& saved, const Run& run, const AskContent& ask_content) {
  const JsonObject state = saved.object();
  refuse_part(saved);
  static_cast<void>(describe(state));  // also what is not compared must be there
  const RunPlace place = place_of(state);
  require_same(saved, {Json(state_of(run, {}, 1))["order"], {}}, ask_content);
  saved.require_same("the number of datasets mixed", mixed(place.mixture ? &*place.mixture : nullptr),
                     mixed(run.mixture()));
  Run moved = run;
  try {
    RunAccess::go_to(moved, place, has_tail_of(state, run));
  } catch (const Error& error) {
    saved.fail(fmt::format("its place cannot be ({})", error.what()));
  }
  RunAccess::set_open(moved, open_in(state, moved));
  const RunPlan& own_plan = RunAccess::own_plan(run);
  if (!own_plan.empty() && !RunAccess::replan(moved, own_plan))
    saved.fail(ErrorCode::mismatch, fmt::format("the plan differs: {}", RunAccess::other_past(moved, own_plan)));
  // The program's own batch size and weights count from here on, if they are others. Of stages, only as long
  // as none has set the size, and if the program that saved was given another.
  const RunOrder& own = *RunAccess::order(run);
  const auto& stages = moved.plan().stages;
  const bool is_by_stage = std::ranges::any_of(stages, [&](const Stage& stage) {
    return stage.global_batch_size != 0 && RunAccess::path(moved).has_begun(stage, moved.position());
  });
  const std::int64_t given = place.way ? place.way->given_batch_size : place.batch_size;
  std::int64_t size = stages.empty() ? run.global_batch_size() : 0;
  if (!stages.empty() && !is_by_stage && given != own.given_batch_size) size = own.given_batch_size;
  if (size == moved.global_batch_size()) size = 0;
  std::vector<std::int64_t> weights;
  if (place.mixture) {
    const JsonObject mixture = state.object("mixture");
    if (mixture.has("given") && mixture.numbers("given") != own.given) weights = own.given;
  }
  if (size != 0 || !weights.empty()) RunAccess::change(moved, size, std::move(weights));
  return moved;
}

}  // namespace rota::internal
