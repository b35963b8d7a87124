#pragma once

// A loader's state: what defines the order of its run, and how far it is.

#include <functional>
#include <string>
#include <vector>

#include "loader/settling.hpp"
#include "order/run_state.hpp"
#include "resume/saved_state.hpp"
#include "rota/checkpoint.hpp"
#include "rota/communicator.hpp"
#include "rota/loader.hpp"
#include "rota/run.hpp"
#include "rota/snapshot.hpp"
#include "source/content.hpp"

namespace rota::internal {

/// What is known of some samples of the dataset, which may have to be read for it.
using AskContent = std::function<const std::vector<SampleContent>&()>;

/// Adds what the dataset holds to a state.
void add_content(const std::vector<SampleContent>& content, OrderedJson& state);

/// How many samples were dropped, by reason: in a state, or its part.
using Drops = Ledger::Drops;
/// Its name there, and of their list in a checkpoint.
inline constexpr std::string_view kDropped = "dropped";
void put_drops(const Drops& dropped, OrderedJson& object);
[[nodiscard]] Drops drops_in(const JsonObject& object);

/// The state of a run of which `settling` knows what is open, as a text: as far as this rank knows.
[[nodiscard]] std::string own_text(const Run& run, const Settling& settling, const World& world,
                                   std::int64_t skipped, const AskContent& ask_content);
[[nodiscard]] std::string own_state(const Loader& loader);
/// **Collective.** As Loader::merge; `own_state` is the state of this rank as it is then. Whether something
/// comes again: who reads ahead begins anew then.
bool merge(const Communicator& comm, Run& run, Settling& settling, const World& world,
           const std::function<std::string()>& own_state);
/// **Collective.** The state of all of them, on each.
[[nodiscard]] std::string whole_state(const Communicator& comm, const std::string& part, const World& world);

/// Throws Error{mismatch} where a sample that a state has something of has other content now.
void require_same_content(const SavedState& saved, const AskContent& ask_content);

/// `run` where a saved state says that it was. Throws Error{corrupt} for what no run's state has,
/// Error{mismatch} unless it is of the order of `run` and of its content, Error{corrupt} for a place that
/// this does not have.
[[nodiscard]] Run moved_to(const SavedState& saved, const Run& run, const AskContent& ask_content);

/// As a checkpoint has a run, and what was dropped of it: counted by all ranks, and listed by this one.
struct SavedRun {
  Run run;
  DroppedSamples dropped = {};
};
/// Of one that `settling` is of. Where it is settled by hand, `whole_state` is that of all ranks. Throws
/// Error{mismatch} where it is not.
[[nodiscard]] SavedRun as_saved(const Run& run, const Settling& settling,
                                const std::function<std::string()>& whole_state,
                                const AskContent& ask_content);
/// As `save` and `restore` of a Loader, of a run alone in `world`. `described` is what all ranks must have in
/// common.
void save_run(const SavedRun& saved, World world, const AskContent& ask_content, const std::string& described,
              Snapshot& snapshot, std::string_view name);
[[nodiscard]] SavedRun restored(const SavedState& saved, const Checkpoint& checkpoint, const Run& run,
                                World world, const AskContent& ask_content, std::int64_t added = 0);

}  // namespace rota::internal
