#pragma once

// Runs over real ranks, in worlds that take turns.

#include "all_of_ranks.hpp"
#include "loader/course.hpp"

namespace rota::test {

/// **Collective** over all. The ranks below `size`; nothing on the others.
inline std::optional<Communicator> first_ranks(int size) {
  return part_of(everyone(), [size](int rank) { return rank < size; });
}

/// This rank's loader among those of `comm`.
class RealRanks {
 public:
  RealRanks(const Course& course, const Communicator& comm) : comm_(comm), loader_(course.make(comm)) {}

  /// **Collective.** The next step; nothing at the end of the course.
  std::optional<Step> step() {
    Step all;
    const auto batch = loader_.next();
    if (batch) all.add(*batch);
    EXPECT_THAT(ranks::all_gather(comm_, batch ? 1 : 0), Each(batch ? 1 : 0)) << "unequal numbers of steps";
    Numbers numbers(all.slots.size() * kNumbers);
    if (!numbers.empty()) std::memcpy(numbers.data(), all.slots.data(), numbers.size() * sizeof(numbers[0]));
    numbers = all_of_ranks(comm_, numbers);
    all.slots.resize(numbers.size() / kNumbers);
    if (!numbers.empty()) std::memcpy(all.slots.data(), numbers.data(), numbers.size() * sizeof(numbers[0]));
    if (!batch) return std::nullopt;
    all.expect_each_slot_once(batch->global_size());
    return all;
  }
  template <typename Work>
  void each(Work work) {
    work(loader_);
  }
  Loader& front() { return loader_; }
  void save(CheckpointDirectory& checkpoints) { checkpoints.save_all(loader_.position().step, loader_); }

 private:
  static constexpr std::size_t kNumbers = sizeof(Slot) / sizeof(std::int64_t);
  const Communicator& comm_;
  Loader loader_;
};

/// **Collective.** What rank 0, which is in every world, has seen. Checkpoints are in `directory`.
inline std::vector<Step> through_ranks(Course course, const std::vector<Turn>& turns,
                                       const fs::path& directory) {
  std::vector<Step> steps;
  for (const Turn& turn : turns) {
    course.options.workers = turn.workers;
    std::int64_t is_over = 0;
    if (const auto comm = first_ranks(turn.ranks)) {
      CheckpointDirectory checkpoints(*comm, directory);
      RealRanks ranks(course, *comm);
      is_over = course.take(turn, ranks, checkpoints, steps) ? 1 : 0;
    }
    everyone().max(std::span(&is_over, 1));
    if (is_over != 0) return steps;
  }
  ADD_FAILURE() << "the run has no end";
  return steps;
}

}  // namespace rota::test
