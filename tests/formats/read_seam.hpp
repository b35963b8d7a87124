#pragma once

// Stands before the calls by which this program reads files, as read_seam.cpp replaces them: notes those of
// a thread, and lets one of them fail.

#include "test.hpp"

namespace rota::test {

/// `look`: a preadv2 that does not wait. `wait`: pread, or a preadv2 that does.
enum class ReadCall { look, hint, wait, set_up, submit, collect };

enum class ReadFault {
  none,
  fails,        ///< EIO; of what is collected, each read
  is_short,     ///< does a part
  interrupted,  ///< EINTR
  refused,      ///< EAGAIN
};

/// From here on, call `number` (from 0) of this kind of this thread does as `fault` says; none is noted yet.
void arm_reads(ReadCall call, std::int64_t number, ReadFault fault);
inline void disarm_reads() { arm_reads(ReadCall::look, -1, ReadFault::none); }
/// From here on, of the calls of all threads one in `one_in` does as some fault says, by this seed; none,
/// where that is 0.
void fail_reads_at_random(std::uint64_t seed, std::uint64_t one_in);
/// The calls of this thread since `arm_reads`.
const std::vector<ReadCall>& calls_made();

/// How much memory the machine says that it has; 0: what it has.
void pretend_memory(std::int64_t bytes);

}  // namespace rota::test
