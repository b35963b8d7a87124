#pragma once

// What a user meets who may not do everything, in tests that root runs, too.

#include "source/reading.hpp"

namespace rota::test {

/// What `action` throws in a process that may not read everything, as root may: "code: message", or "".
inline std::string error_as_nobody(const std::function<void()>& action) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) ::_exit(2);
    const auto error = error_of(action);
    const std::string text = error ? std::string(to_string(error->code())) + ": " + error->what() : "";
    const bool is_sent = ::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::_exit(is_sent ? 0 : 3);
  }
  ::close(ends[1]);
  std::string text;
  std::array<char, 512> piece{};
  for (ssize_t got = 0; (got = ::read(ends[0], piece.data(), piece.size())) > 0;) {
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 ? text : "the process failed";
}

}  // namespace rota::test
