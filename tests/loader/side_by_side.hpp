#pragma once

// The loaders of all ranks of a world, in one process.

#include "test.hpp"

namespace rota::test {

class SideBySide {
 public:
  /// Makes the loader of each rank.
  using Make = std::function<Loader(World)>;

  SideBySide(int size, const Make& make) {
    for (int r = 0; r < size; ++r) loaders_.push_back(make({.rank = r, .size = size}));
  }

  /// Has each rank take a step, and hands what it gets to `take(loader, batch)`. False at the end of the run,
  /// which all reach together.
  template <typename PositionRange>
  bool step(PositionRange take) {
    std::size_t ended = 0;
    for (Loader& loader : loaders_) {
      const auto batch = loader.next();
      if (batch) take(loader, *batch);
      if (!batch) ++ended;
    }
    EXPECT_TRUE(ended == 0 || ended == loaders_.size()) << "ranks took unequal numbers of steps";
    return ended == 0;
  }

  /// Does `work` with the loader of each rank.
  template <typename Work>
  void each(Work work) {
    for (Loader& loader : loaders_) work(loader);
  }
  Loader& front() { return loaders_.front(); }

 private:
  std::vector<Loader> loaders_;
};

}  // namespace rota::test
