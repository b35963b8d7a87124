#pragma once

// What is asked of objects that are empty, or were moved from.

#include "test.hpp"

namespace rota::test {

/// Each of `calls` throws the Error that says that `what` is empty.
inline void expect_refused(const std::string& what, const std::vector<std::function<void()>>& calls) {
  for (std::size_t i = 0; i < calls.size(); ++i) {
    try {
      calls[i]();
      ADD_FAILURE() << "call " << i << " of " << what << " threw nothing";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_THAT(error.what(), ::testing::HasSubstr("use " + what + ": it is empty, or was moved from"));
    }
  }
}

}  // namespace rota::test
