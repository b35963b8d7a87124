#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "loader/loop_watch.hpp"
#include "loader/ordered_source.hpp"
#include "loader/ring.hpp"
#include "loader/settling.hpp"
#include "loader/skip_counter.hpp"
#include "order/for_rules.hpp"
#include "order/run_order.hpp"
#include "rota/loader.hpp"
#include "source/read_plan.hpp"

namespace rota {

/// What is behind a Loader.
struct Loader::Impl {
  using Owner = std::unique_ptr<Impl, internal::DeleteWhereMade>;
  Impl(internal::OrderedSource ordered, LoaderOptions how, World place, internal::SkipCounter skips,
       std::shared_ptr<internal::Settling> settles = nullptr);
  /// In place of `before`: the same loader over other datasets.
  static Owner renewed(internal::OrderedSource ordered, LoaderOptions how, Impl& before);
  /// Over a source, or over a mixture.
  template <typename Data>
  static Owner make(const Communicator& comm, Data&& data, LoaderOptions options, World world);

  /// `delivered` is elsewhere now, on all ranks, because of `by`.
  void moved(std::string_view by);
  /// Of all its datasets. Reads them the first time.
  [[nodiscard]] const std::vector<internal::SampleContent>& content() const;
  /// What all ranks' loaders must have in common, by lines.
  [[nodiscard]] std::string described(const Run& run) const;
  [[nodiscard]] std::string described() const { return described(delivered); }
  /// **Collective** over those that made the loader together, if they did. Throws Error{mismatch} on all.
  void compare() {
    const Communicator& comm = counter.comm();
    if (ranks::is_alone(comm) || comm.world() != world || maker_thread != std::this_thread::get_id()) return;
    ranks::require_same(comm, "go on with loaders", described());
    is_compared = true;
  }
  /// Has what was given up read again.
  bool read_again(bool is_end) {
    if (!settling.may_give()) return false;
    const internal::OpenTurns turns = settling.give(delivered, world, is_end);
    if (!turns.empty()) ring.add_again(turns);
    return !turns.empty();
  }
  std::unique_ptr<internal::BatchMemory> hand_out();
  void tell_what_is_odd() const;
  void tell_decodes();
  void tell_what_outweighs(const internal::BatchMemory& batch);
  std::unique_ptr<internal::BatchMemory> make_batch();
  void restart();
  void change_and_restart();

  std::shared_ptr<const Source> source;
  Mixture mixture = {};  // as the program gave it
  Run delivered;         // behind the last batch that next() returned
  LoaderOptions options;
  World world;
  internal::SkipCounter counter;
  std::shared_ptr<internal::Settling> shared_settling;  // with threads of Python's, which settle
  internal::Settling& settling = *shared_settling;
  mutable std::optional<std::vector<internal::SampleContent>> asked_content = {};  // once a state is made
  bool has_failed = false;                                                         // the last next() threw
  internal::ForRules rules{options.evaluation, false};
  bool is_compared = true;                                    // with those of other ranks, since a change
  std::thread::id maker_thread = std::this_thread::get_id();  // others need not be as far on all ranks
  bool has_told = false;                                      // that one began in the middle
  bool has_told_decodes = false;
  bool has_told_outweighs = false;
  bool has_told_limit = false;
  internal::LoopWatch watch = {};
  std::int64_t skipped = 0;  // of the batches that next() returned
  internal::ReadCounts counts_before = internal::PlannedSource::plan_of(*source)->counts();
  internal::BatchMaker maker;
  internal::Ring ring{maker, options, delivered};
};

}  // namespace rota
