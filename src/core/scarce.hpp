#pragma once

// What the system may refuse to give: memory and threads, refused by name.

#include <new>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "core/failure.hpp"

namespace rota::internal {

/// What `work` returns. Where it throws for want of memory, throws Error{io}; `what()` says what it was for.
template <typename Work, typename What>
decltype(auto) with_memory(Work work, What what) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {  // more than a container can ever hold
  }
  throw failure(ErrorCode::io, "{}: there is not so much memory", what());
}

/// A thread that does `work`. Throws Error{io} where the system has no more of them.
template <typename... Work>
std::jthread start_thread(std::string_view task, Work&&... work) {
  try {
    return std::jthread(std::forward<Work>(work)...);
  } catch (const std::system_error& error) {
    throw failure(ErrorCode::io, "{}: the system starts no more threads ({}); use fewer", task, error.what());
  }
}

}  // namespace rota::internal
