#pragma once

// A loader's state: what defines the order of its run, and how far it is.

#include <functional>
#include <string>
#include <vector>

#include "order/run_state.hpp"
#include "resume/saved_state.hpp"
#include "rota/checkpoint.hpp"
#include "rota/run.hpp"
#include "rota/snapshot.hpp"
#include "source/content.hpp"

namespace rota::internal {

/// What is known of some samples of the dataset, which may have to be read for it.
using AskContent = std::function<const std::vector<SampleContent>&()>;

/// Adds what the dataset holds to a state.
void add_content(const std::vector<SampleContent>& content, OrderedJson& state);

/// `run` where a saved state says that it was. Throws Error{corrupt} for what no run's state has,
/// Error{mismatch} unless it is of the order of `run` and of its content, Error{corrupt} for a place that
/// this does not have.
[[nodiscard]] Run moved_to(const SavedState& saved, const Run& run, const AskContent& ask_content);

/// As `save` and `restore` of a Loader, of a run alone in `world`. `described` is what all ranks must have in
/// common.
void save_run(const Run& run, World world, const AskContent& ask_content, const std::string& described,
              Snapshot& snapshot, std::string_view name);
[[nodiscard]] Run restored(const SavedState& saved, const Checkpoint& checkpoint, const Run& run, World world,
                           const AskContent& ask_content);

}  // namespace rota::internal
