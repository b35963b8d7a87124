#pragma once

#include "mpi/collectives.hpp"
#include "test.hpp"

namespace rota::test {

/// **Collective.** The numbers of all ranks of `comm`, in order of rank, on every rank.
inline std::vector<std::int64_t> all_of_ranks(const mpi::Communicator& comm,
                                              const std::vector<std::int64_t>& mine) {
  if (comm.size() == 1) return mine;
  const auto sizes = mpi::gather(comm, std::ssize(mine));
  const std::vector<int> counts(sizes.begin(), sizes.end());
  std::vector<int> offsets(counts.size() + 1);
  for (std::size_t r = 0; r < counts.size(); ++r) offsets[r + 1] = offsets[r] + counts[r];
  std::vector<std::int64_t> all(static_cast<std::size_t>(offsets.back()));
  MPI_Allgatherv(mine.data(), static_cast<int>(mine.size()), MPI_INT64_T, all.data(), counts.data(),
                 offsets.data(), MPI_INT64_T, comm.get());
  return all;
}

}  // namespace rota::test
