#pragma once

// Threads of one process as ranks.

#include <functional>

#include "rota/communicator.hpp"

namespace rota::test {

/// Runs `work` on as many threads, each with its communicator of all of them. Throws what one of them throws.
void on_thread_ranks(int ranks, const std::function<void(const Communicator&)>& work);

/// This rank is gone from `comm`, of threads: who waits for something of it that has not come finds it.
void leave(const Communicator& comm);

}  // namespace rota::test
