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
#include "loader/planner.hpp"
#include "loader/ring.hpp"
#include "loader/run_order.hpp"
#include "loader/skip_counter.hpp"
#include "rota/loader.hpp"
#include "source/content.hpp"
#include "source/node_files.hpp"
#include "source/read_plan.hpp"

namespace rota {
namespace internal {

/// A position, and what else it takes to go there.
struct LoaderPosition {
  Position position;
  std::optional<MixtureState> mixture = {};  ///< of a loader that mixes
};

}  // namespace internal

/// What is behind a Loader.
struct Loader::Impl {
  using Owner = std::unique_ptr<Impl, internal::DeleteWhereMade>;
  /// Over a source, or over a mixture.
  template <typename Data>
  static Owner make(const Communicator& comm, Data&& data, LoaderOptions options, World world);

  [[nodiscard]] const MixtureState* mixture() const noexcept {
    return run_order.mix_plan ? &run_order.mix_plan->turns.state() : nullptr;
  }
  /// A position as a place, with the weights as they are.
  [[nodiscard]] internal::LoaderPosition place_at(const Position& at) const {
    return {at, mixture() != nullptr ? std::optional(*mixture()) : std::nullopt};
  }
  [[nodiscard]] const Fingerprint& fingerprint() const {
    if (!asked_fingerprint) asked_fingerprint = source->fingerprint();
    return *asked_fingerprint;
  }
  /// Not the maker's, which a worker may be using.
  [[nodiscard]] internal::AnySchedule schedule_at(const internal::LoaderPosition& place) const;
  /// Throws as Loader::seek where that would refuse to go to `place`. Goes nowhere.
  void require_place(const internal::LoaderPosition& place) const;
  /// Goes there. Throws as `require_place`.
  void go_to(const internal::LoaderPosition& place);
  /// As Loader::cursors, of a place that the loader may go to.
  void cursors(const internal::LoaderPosition& place, std::int64_t first, std::span<std::int64_t> out) const;
  /// Of all its datasets. Reads them the first time.
  [[nodiscard]] const std::vector<internal::SampleContent>& content() const;
  void require_mixture(std::string_view verb, std::size_t datasets) const;
  /// What all ranks' loaders must have in common, by lines.
  [[nodiscard]] std::string described() const;
  /// **Collective** over those that made the loader together, if they did. Throws Error{mismatch} on all.
  void compare() {
    const Communicator& comm = counter.comm();
    if (ranks::is_alone(comm) || comm.world() != world || maker_thread != std::this_thread::get_id()) return;
    ranks::require_same(comm, "go on with loaders", described());
    is_compared = true;
  }
  [[nodiscard]] bool has_step() const;
  void tell_what_is_odd() const;
  void tell_decodes();
  std::unique_ptr<internal::BatchMemory> make_batch();
  void restart();
  void change_and_restart();

  std::shared_ptr<const Source> source;
  internal::RunOrder run_order;
  LoaderOptions options;
  World world;
  internal::SkipCounter counter;
  mutable std::optional<Fingerprint> asked_fingerprint = {};
  mutable std::optional<std::vector<internal::SampleContent>> asked_content = {};  // once a state is made
  Position position = {};
  Position origin = {};                                       // from which on batches are as they are now
  bool has_failed = false;                                    // the last next() threw
  bool was_moved = false;                                     // since the last `for` began
  bool is_compared = true;                                    // with those of other ranks, since a change
  std::thread::id maker_thread = std::this_thread::get_id();  // others need not be as far on all ranks
  bool has_told = false;                                      // that one began in the middle
  bool has_told_decodes = false;
  internal::LoopWatch watch = {};
  std::int64_t skipped = 0;  // of the batches that next() returned
  internal::Fetched fetched_before = internal::fetched_by(*source);
  internal::DecodeCounts decoded_before = internal::decoded_by(*source);
  internal::BatchMaker maker{source, run_order, options, world};
  internal::Ring ring{maker, options, position};
};

}  // namespace rota
