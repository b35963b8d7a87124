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

void require_same(const SavedState& saved, const ContentChange& content) {
  if (content.first.empty()) return;
  saved.fail(ErrorCode::mismatch,
             fmt::format("the content of the dataset differs: {}has changed since {} was made; {}",
                         content.first, saved.where(), saved.rule()));
}

void require_same_dataset(const SavedState& saved, const JsonObject& then, const JsonObject& now,
                          const AskContent& ask_content) {
  const auto taken_for = [](const JsonObject& order) {
    return order.has(kTakenFor) ? order.at(kTakenFor) : Json();
  };
  const bool is_said_to_be_same = taken_for(then) != taken_for(now);  // whatever it holds
  const ContentChange content =
      is_said_to_be_same ? ContentChange() : compare_content(saved.object(), ask_content);
  const bool may_be_same = then.number("samples") == now.number("samples") && content.first.empty();
  saved.require_same("the dataset", describe_dataset(then), describe_dataset(now),
                     may_be_same && content.same > 0
                         ? std::string(". As far as was looked, the files hold the same: give these the "
                                       "names that they had, and what "
                                       "is chosen, weighted or cut of them as then; or say by known_as() "
                                       "that these are the same samples")
                     : may_be_same           ? ", or say by known_as() that these are the same samples"
                     : content.first.empty() ? ""
                                             : ". Its content differs: " + content.first + "has changed");
  require_same(saved, content);
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

// Datasets that are absent have no turns from here on.
void leave_out_absent(const SavedState& saved, Run& moved) {
  const RunOrder& order = *RunAccess::order(moved);
  const std::vector<std::int64_t>* const now = order.absent.empty() ? nullptr : &moved.mixture()->weights;
  if (now && std::ranges::any_of(order.absent, [&](std::size_t d) { return (*now)[d] > 0; }))
    RunAccess::change(moved, 0, order.given);
  const auto turns = RunAccess::turns_of_absent(moved);
  if (!turns) return;
  saved.fail(
      ErrorCode::mismatch,
      fmt::format("from step {} on weights of a stage that has begun give turns to the dataset {}, which is "
                  "not there any more; let the run that has it go on by another plan first",
                  turns->first, order.names[turns->second]));
}

std::size_t mixed(const MixtureState* mixture) { return mixture == nullptr ? 0 : mixture->weights.size(); }

}  // namespace

void require_same_content(const SavedState& saved, const AskContent& ask_content) {
  require_same(saved, compare_content(saved.object(), ask_content));
}

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
    saved.fail(ErrorCode::mismatch,
               fmt::format("the plan differs: {}", RunAccess::other_past(moved, own_plan)));
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
  leave_out_absent(saved, moved);
  return moved;
}

}  // namespace rota::internal
