#pragma once

// What the interposed library, the programs under it and the tests agree on: the kinds of faults, and the
// functions by which a program has one done to itself. They are found with dlsym, so that a program starts
// without the library as well.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rota::test {

/// What becomes of the call that a fault hits. Where a kind makes no sense for a call, that call fails with
/// EIO.
enum class Kind : int {
  count,    ///< nothing: calls are only counted
  enospc,   ///< fails with ENOSPC
  eio,      ///< fails with EIO
  partial,  ///< half of the bytes are written or read; half are allotted, and then the disk is full
  eintr,    ///< fails with EINTR, and nothing is done
  dropped,  ///< reports success, and nothing is done
  kill,     ///< SIGKILL to this process before the call
  late,     ///< done as asked, but after `kLateness`
  full,     ///< fails with ENOSPC, and so does all that takes space from then on
  broken,   ///< fails with EIO, and so do all calls from then on
};

inline constexpr std::array<std::string_view, 10> kKindNames{"count",   "ENOSPC", "EIO",  "short", "EINTR",
                                                             "dropped", "kill",   "late", "full",  "broken"};

/// How long a late call takes, and the deadline that it makes its rank miss. Others wait a second for one
/// that fails later than they do, and then end the job.
inline constexpr std::chrono::milliseconds kLateness{1900};
inline constexpr std::chrono::milliseconds kMissedDeadline{1500};

constexpr std::string_view to_string(Kind kind) { return kKindNames.at(static_cast<std::size_t>(kind)); }

/// The kind of that name; count for any other name.
constexpr Kind kind_of(std::string_view name) {
  const auto* found = std::ranges::find(kKindNames, name);
  return found == kKindNames.end() ? Kind::count : static_cast<Kind>(found - kKindNames.begin());
}

}  // namespace rota::test

extern "C" {
/// From now on calls are counted, from 0, and the `at`-th meets a fault of `kind` (a rota::test::Kind).
void rota_faults_arm(std::int64_t at, int kind);
void rota_faults_disarm();
/// How many calls there were since the last `rota_faults_arm`, and the name of the i-th.
std::int64_t rota_faults_count();
const char* rota_faults_call(std::int64_t i);
/// Adds a mark to the trace of this process, if one is recorded.
void rota_faults_mark(std::int64_t value);
}
