#pragma once

// The tags of messages between ranks: one for each kind, so that none is taken for another.

namespace rota::mpi {

inline constexpr int kNodeBufferTag = 1;
inline constexpr int kPushTag = 2;
inline constexpr int kControlTag = 3;
inline constexpr int kCheckpointTag = 4;

}  // namespace rota::mpi
