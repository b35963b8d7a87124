#include "cli/output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <system_error>

#include "cli/shown_text.hpp"

namespace rota::cli {
namespace {

constexpr int kFailed = 1;

void occupy_closed_streams() noexcept {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

// What it printed last may have failed to arrive, too: `error` is that of the system then, else 0.
int run(const std::function<int()>& program, std::string& message, int& error) {
  try {
    return program();
  } catch (const std::bad_alloc&) {
    message = "there is not enough memory";
  } catch (const std::system_error& thrown) {
    if (std::ferror(stdout) != 0) error = thrown.code().value();
    message = thrown.what();
  } catch (const std::exception& thrown) {
    message = thrown.what();
  }
  return kFailed;
}

}  // namespace

void flush_output() {
  if (std::fflush(stdout) != 0)
    throw std::system_error(errno, std::generic_category(), "write to standard output");
}

int run_with_output(const std::function<int()>& program) {
  occupy_closed_streams();
  std::string message;
  int error = 0;
  int code = run(program, message, error);
  const bool has_failed = std::ferror(stdout) != 0;
  errno = 0;
  const bool is_closed = std::fclose(stdout) == 0;  // some file systems tell of a full disk only now
  if (has_failed || !is_closed) {
    if (error == 0) error = errno == 0 ? EIO : errno;
    if (error == EPIPE) return 128 + SIGPIPE;
    message = fmt::format("write to standard output: {}", std::generic_category().message(error));
    code = kFailed;
  }
  if (!message.empty()) std::fputs(fmt::format("error: {}\n", shown(message)).c_str(), stderr);
  return code;
}

}  // namespace rota::cli
