#pragma once

// What all ranks of a test have together.

#include "core/wait.hpp"
#include "mpi/collectives.hpp"
#include "mpi_main.hpp"
#include "test.hpp"

namespace rota::test {

inline const mpi::Communicator& everyone() { return mpi_session().comm(); }
inline bool is_root() { return everyone().rank() == 0; }
inline bool is_last() { return everyone().rank() + 1 == everyone().size(); }

/// A directory that all ranks see, gone when all have left it.
class SharedDirectory {
 public:
  SharedDirectory() {
    if (is_root()) owner_.emplace();
    path_ = mpi::broadcast(everyone(), owner_ ? owner_->path().string() : "");
  }
  ~SharedDirectory() { mpi::agree(everyone(), "leave a directory", nullptr); }
  SharedDirectory(const SharedDirectory&) = delete;
  SharedDirectory& operator=(const SharedDirectory&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  std::optional<TemporaryDirectory> owner_;
  fs::path path_;
};

/// Longer than any wait of a test.
constexpr auto kDeadline = 10min;

/// **Collective.** Runs `work` on all ranks but `missing`, and lets kDeadline pass once all of them wait, and
/// have done so for a moment, in which comes what they wait for of each other.
inline void wait_without(int missing, const std::function<void()>& work) {
  const bool is_missing = everyone().rank() == missing;
  MPI_Comm split = MPI_COMM_NULL;
  MPI_Comm_split(everyone().get(), is_missing ? MPI_UNDEFINED : 0, 0, &split);
  if (is_missing) return;
  const mpi::Communicator others(split, 0ms);
  int asked = 0;
  const auto come = [&] {
    if (asked++ == 0) {
      const WaitScope undisturbed{Wait()};
      mpi::agree(others, "wait as one", nullptr);
    }
    if (asked > 5) DeadlineClock::advance(kDeadline + 1s);
  };
  {
    const WaitScope scope{Wait(come)};
    std::this_thread::sleep_for(Wait::kInterval);  // from now on the first look asks
    work();
  }
  if (asked == 0) come();
  MPI_Comm_free(&split);
}

/// **Collective.** The numbers of all ranks of `comm`, in order of rank, on every rank.
inline std::vector<std::int64_t> all_of_ranks(const mpi::Communicator& comm,
                                              const std::vector<std::int64_t>& mine) {
  if (comm.size() == 1) return mine;
  const auto sizes = mpi::all_gather(comm, std::ssize(mine));
  const std::vector<int> counts(sizes.begin(), sizes.end());
  std::vector<int> offsets(counts.size() + 1);
  for (std::size_t r = 0; r < counts.size(); ++r) offsets[r + 1] = offsets[r] + counts[r];
  std::vector<std::int64_t> all(static_cast<std::size_t>(offsets.back()));
  MPI_Allgatherv(mine.data(), static_cast<int>(mine.size()), MPI_INT64_T, all.data(), counts.data(),
                 offsets.data(), MPI_INT64_T, comm.get());
  return all;
}

}  // namespace rota::test
