#pragma once

// Calls at the rim of what functions and options take, and the errors that are due.

#include "test.hpp"

namespace rota::test {

inline constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
inline constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
inline constexpr std::int64_t kTwo62 = std::int64_t{1} << 62;

inline constexpr auto kInvalid = ErrorCode::invalid_argument;
inline constexpr auto kMissing = ErrorCode::not_found;
inline constexpr auto kRange = ErrorCode::out_of_range;
inline constexpr auto kCallback = ErrorCode::callback;
inline constexpr auto kCorrupt = ErrorCode::corrupt;

/// What the message of an error says, among other things.
using Words = std::vector<std::string>;

/// `call` throws an Error of this code that says all `words`, and nothing else. A failure names the line of
/// the caller.
inline void refused(ErrorCode code, const Words& words, const std::function<void()>& call,
                    const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  const ScopedTrace trace(file, line, "this must be refused");
  try {
    call();
    ADD_FAILURE() << "it is not refused";
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.code()), to_string(code)) << error.what();
    for (const std::string& word : words) EXPECT_THAT(error.what(), HasSubstr(word));
    EXPECT_THAT(words, AllOf(Not(IsEmpty()), Each(SizeIs(Gt(1))))) << "any message has that";
  } catch (const std::exception& error) {
    ADD_FAILURE() << "no rota::Error: " << error.what();
  }
}
inline void refused(const Words& words, const std::function<void()>& call,
                    const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  refused(kInvalid, words, call, file, line);
}

}  // namespace rota::test
