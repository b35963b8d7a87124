#pragma once

// What a run goes through. Next: planner.hpp.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/option.hpp"
#include "order/order.hpp"
#include "order/run_path.hpp"
#include "rota/fingerprint.hpp"
#include "rota/run.hpp"

namespace rota::internal {

/// What makes the order of a run: the order of its dataset, or of each of those that are mixed. *Immutable.*
struct RunOrder {
  std::vector<Order> orders;
  std::vector<std::int64_t> firsts;  // [orders + 1]: the first sample of each, numbered one after the other
  std::vector<std::string> names;    // [orders], where datasets have names
  std::vector<Fingerprint> known;    // [orders]: what each is known by
  /// Datasets that are known by another fingerprint, the first, than their own.
  std::vector<std::pair<Fingerprint, Fingerprint>> taken_for;
  Fingerprint lengths;      // of the shards of all of them: what lets equal numbers be told apart
  Fingerprint fingerprint;  // of the data
  std::uint64_t seed = 0;
  BlockShape block;
  std::vector<std::size_t> absent = {};  // numbers of datasets that the program was made without
  std::vector<std::int64_t> given;       // the weights that the program began with, quantised
  std::int64_t given_batch_size = 0;

  /// What is read in the place of a sample that is left out, where something must be: the next one of its
  /// dataset that is not.
  [[nodiscard]] SampleId instead_of(SampleId id, std::span<const SampleId> left_out) const;
};

/// Of shards that are files or units, and of blocks.
[[nodiscard]] Fingerprint digest_lengths(std::span<const Order> orders);

/// Refuses what no run has, of the options that a loader has, too.
void check(const RunOptions& options, const OptionCheck& with);

/// A place, and what else a state has of the way to it.
struct RunPlace {
  /// As a RunPath is made, but of the steps.
  struct Way {
    Position begin;
    std::int64_t batch_size = 0;
    std::optional<MixtureState> mixture = {};
    bool takes_stages = false;
    RunPlan plan = {};
    std::vector<ChangeByHand> changes = {};
    std::int64_t given_batch_size = 0;  ///< of the program
  };
  Position position;
  std::int64_t batch_size = 0;
  std::optional<MixtureState> mixture = {};  // of a run that mixes
  Position origin = {};                      // from which on batches were as they were there
  std::optional<Way> way = {};               // of a run with a plan, or with changes by hand
};

/// What is behind a Run.
struct RunAccess {
  static const std::shared_ptr<const RunOrder>& order(const Run& run) { return run.order_; }
  static const RunPath& path(const Run& run) { return *run.path_; }
  /// What the program has said, whatever a state has it go on by.
  static const RunPlan& own_plan(const Run& run) { return *run.own_plan_; }
  /// Where the run is.
  static const Stretch& stretch(const Run& run) { return run.path_->at(run.position_.step); }
  static const RunSteps& steps(const Run& run) { return *stretch(run).steps; }
  static Tail tail(const Run& run) {
    return std::visit([](const auto& steps) { return steps.tail(); }, steps(run));
  }
  static std::int64_t epochs(const Run& run) {
    return std::visit([](const auto& steps) { return steps.epochs(); }, steps(run));
  }
  /// The next batch.
  static bool batch(const Run& run, GlobalBatch& out);
  /// What is open and comes first.
  static std::span<const OpenTurn> open(const Run& run) {
    return run.open_ ? std::span(*run.open_).subspan(static_cast<std::size_t>(run.again_))
                     : std::span<const OpenTurn>();
  }
  static void set_open(Run& run, OpenTurns open) {
    run.open_ = open.empty() ? nullptr : std::make_shared<const OpenTurns>(std::move(open));
    run.again_ = 0;
  }
  /// Does `work`, which sends it elsewhere: what is open stays so.
  template <typename Work>
  static void keep_open(Run& run, const Work& work) {
    const auto open = run.open_;
    const std::int64_t again = run.again_;
    work();
    run.open_ = open;
    run.again_ = again;
  }
  static void add_open(Run& run, const OpenTurns& more);
  /// Of samples by id and epoch, in any order.
  static OpenTurns turns_of(const Run& run, std::span<const SampleId> ids,
                            std::span<const std::int64_t> epochs);
  /// Back to a place before which batches may have been others.
  static void go_back(Run& run, const Position& at);
  /// Why nothing is known of what came before that.
  static std::string past(const Run& run);
  /// Behind a batch of this run, which may be before its place, but not before its origin.
  static void go_behind(Run& run, const RunSlice& batch) {
    run.position_ = batch.end;
    if (run.open_) run.again_ = std::ssize(*run.open_) - batch.left_again;
  }
  /// Behind a batch that was planned of this run; what comes again may have been added since.
  static void pass(Run& run, const RunSlice& batch) {
    run.again_ += batch.is_again() ? batch.global_real : 0;
    run.position_ = batch.end;
  }
  /// To where batches began to be as they are.
  static void go_to_origin(Run& run) { run.position_ = stretch(run).begin; }
  /// Samples that a run has had of each dataset; no more than 2^62.
  static std::vector<std::int64_t> had(const Run& run);
  static void require_mixture(const Run& run, std::string_view verb, std::size_t datasets);
  /// From which step on a dataset that is absent has turns, and its number; nothing where none has from here
  /// on.
  static std::optional<std::pair<std::int64_t, std::size_t>> turns_of_absent(const Run& run);
  /// Throws Error{invalid_argument} there.
  static void require_present(const Run& run);
  /// Goes to where a state was made; its way was one of other batches unless `are_same`.
  static void go_to(Run& run, const RunPlace& place, bool are_same);
  /// Goes on from here with what is not 0 or empty.
  static void change(Run& run, std::int64_t batch_size, std::vector<std::int64_t> weights);
  /// As Run::replan; false, and nothing done, for one of another past, which `other_past` says.
  static bool replan(Run& run, const RunPlan& plan);
  static std::string other_past(const Run& run, const RunPlan& plan);
  /// The same with the steps that its plan leaves out.
  static Run without_skip(const Run& run);
  /// As the constructor, of these weights, quantised.
  static Run make(const std::vector<RunData>& data, const RunOptions& how, std::vector<std::int64_t> given,
                  std::vector<std::size_t> absent = {});
};

}  // namespace rota::internal
