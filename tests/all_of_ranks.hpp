#pragma once

// What all ranks of a test have together.

#include "core/wait.hpp"
#include "ranks/access.hpp"
#include "ranks/collectives.hpp"
#include "ranks_main.hpp"
#include "source/reading.hpp"

namespace rota::test {

inline bool is_root() { return everyone().rank() == 0; }
inline bool is_last() { return everyone().rank() + 1 == everyone().size(); }

/// Those of a test that takes seconds at any number of ranks.
inline bool are_three_threads() { return are_threads() && everyone().size() == 3; }

/// **Collective.** What each rank throws, which must be the same on all.
template <typename Work>
std::optional<Error> error_of_all(const Work& work) {
  auto error = error_of(work);
  const std::string here = error ? std::string(to_string(error->code())) + error->what() : "";
  EXPECT_EQ(here, ranks::broadcast(everyone(), here));
  return error;
}
#define EXPECT_ERROR_OF_ALL(call, ...) \
  EXPECT_THAT(error_of_all([&] { static_cast<void>(call); }), is_error(__VA_ARGS__))

/// A directory that all ranks see, gone when all have left it.
class SharedDirectory {
 public:
  SharedDirectory() {
    if (is_root()) owner_.emplace();
    path_ = ranks::broadcast(everyone(), owner_ ? owner_->path().string() : "");
  }
  ~SharedDirectory() { ranks::agree(everyone(), "leave a directory", nullptr); }
  SharedDirectory(const SharedDirectory&) = delete;
  SharedDirectory& operator=(const SharedDirectory&) = delete;
  const fs::path& path() const { return path_; }

 private:
  std::optional<TemporaryDirectory> owner_;
  fs::path path_;
};

/// **Collective** over `comm`. A group of those ranks that are in it; nothing on others.
inline std::optional<Communicator> part_of(const Communicator& comm, const std::function<bool(int)>& is_in,
                                           std::chrono::milliseconds deadline = Communicator::kDeadline) {
  if (comm.size() == 1) return is_in(0) ? std::optional<Communicator>(std::in_place) : std::nullopt;
  std::vector<int> members;
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (is_in(rank) ? is_in(comm.rank()) : rank == comm.rank()) members.push_back(rank);
  }
  auto transport = ranks::split(ranks::exchange_of(comm), members);
  if (!is_in(comm.rank())) return std::nullopt;
  if (!transport) return std::optional<Communicator>(std::in_place);
  return ranks::make_communicator(std::move(transport), deadline);
}

/// Longer than any wait of a test.
constexpr auto kDeadline = 10min;

/// **Collective.** Runs `work` on every rank, in which the clock of deadlines may move. Threads have one
/// clock: nobody waits by it before all have come, nor after `work` before all have done theirs.
inline void while_time_passes(const std::function<void()>& work) {
  const Communicator patient = everyone().duplicate(0ms);
  ranks::agree(patient, "begin", nullptr);
  work();
  ranks::agree(patient, "go on", nullptr);
}

/// **Collective.** Runs `work` on all ranks but `missing`, and lets kDeadline pass once all of them wait, and
/// have done so for a moment, in which comes what they wait for of each other.
inline void wait_without(int missing, const std::function<void()>& work) {
  const auto others = part_of(
      everyone(), [missing](int rank) { return rank != missing; }, 0ms);
  int asked = 0;
  const auto come = [&] {
    if (asked++ == 0) {
      const WaitScope undisturbed{Wait()};
      ranks::agree(*others, "wait as one", nullptr);
    }
    if (asked > 5) DeadlineClock::advance(kDeadline + 1s);
  };
  while_time_passes([&] {
    if (!others) return;
    {
      const WaitScope scope{Wait(come)};
      std::this_thread::sleep_for(Wait::kInterval);  // from now on the first look asks
      work();
    }
    if (asked == 0) come();
  });
}

/// **Collective.** The numbers of all ranks of `comm`, in order of rank, on every rank.
inline Numbers all_of_ranks(const Communicator& comm, const Numbers& mine) {
  const auto bytes = std::as_bytes(std::span(mine));
  Numbers all;
  for (const auto& part : ranks::exchange(comm, "share numbers", [&](ranks::Messages& messages) {
         for (auto& message : messages) message.assign(bytes.begin(), bytes.end());
       })) {
    all.resize(all.size() + part.size() / sizeof(all[0]));
    if (!part.empty()) std::memcpy(&all[all.size() - part.size() / sizeof(all[0])], part.data(), part.size());
  }
  return all;
}

}  // namespace rota::test
