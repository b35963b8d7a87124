#pragma once

// Tables of calls that must be refused, each with the error that it must give.

#include "test.hpp"

namespace rota::test {

inline constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
inline constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
inline constexpr std::int64_t kTwo62 = std::int64_t{1} << 62;

/// A call, and words that the message of its error must have.
struct Refusal {
  std::string what;
  std::function<void()> call;
  ErrorCode code = ErrorCode::invalid_argument;
  std::vector<std::string> words = {};
};

inline void expect_refused(const Refusal& row) {
  SCOPED_TRACE(row.what);
  try {
    row.call();
    ADD_FAILURE() << "it is not refused";
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.code()), to_string(row.code)) << error.what();
    for (const std::string& word : row.words) EXPECT_THAT(error.what(), testing::HasSubstr(word));
  } catch (const std::exception& error) {
    ADD_FAILURE() << "no rota::Error: " << error.what();
  }
}

inline void expect_refused(const std::vector<Refusal>& table) {
  for (const Refusal& row : table) expect_refused(row);
}

}  // namespace rota::test
