#include "mpi/same.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdint>

#include "rota/error.hpp"
#include "rota/fingerprint.hpp"

namespace rota::mpi {

bool is_same(const Communicator& comm, std::string_view bytes) {
  if (comm.size() == 1) return true;
  const Fingerprint digest = FingerprintBuilder().add(bytes).finish();
  std::array least = {static_cast<std::int64_t>(digest.high), static_cast<std::int64_t>(digest.low)};
  std::array most = least;
  min(comm, least);
  max(comm, most);
  return least == most;
}

void require_same(const Communicator& comm, std::string_view phase, const std::string& mine) {
  if (is_same(comm, mine)) return;
  const std::string first = broadcast(comm, mine);
  together(comm, phase, [&] {
    if (mine == first) return;
    throw Error(
        ErrorCode::mismatch,
        fmt::format("{}: rank 0 has {}; this rank has {}; give all ranks the same", phase, first, mine));
  });
}

}  // namespace rota::mpi
