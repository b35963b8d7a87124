#pragma once

// Lets requests for memory fail, as scarce_memory.cpp replaces operator new.

#include <cstddef>

namespace rota::test {

/// From here on, requests of this thread for more than `bytes` fail.
void grant_no_more_than(std::size_t bytes);
/// From here on there is memory again.
void grant_all();

}  // namespace rota::test
