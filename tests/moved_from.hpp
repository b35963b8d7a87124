#pragma once

// What is asked of objects that are empty, or were moved from.

#include "source/reading.hpp"

namespace rota::test {

/// Each of `calls` throws the Error that says that `what` is empty.
inline void expect_refused(const std::string& what, const std::vector<std::function<void()>>& calls) {
  for (std::size_t i = 0; i < calls.size(); ++i) {
    EXPECT_ERROR(calls[i](), invalid_argument, {"use " + what + ": it is empty, or was moved from"})
        << "call " << i;
  }
}

}  // namespace rota::test
