#pragma once

// An S3 server in a process of its own, for one test.

#include <sys/socket.h>

#include "test.hpp"

namespace rota::test {

/// Serves what is put into it, and fails as the arguments of s3_server.py say. It ends with this.
class S3Server {
 public:
  explicit S3Server(std::vector<std::string> arguments = {}) : arguments_(std::move(arguments)) {}
  ~S3Server() {
    if (process_ < 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    std::fclose(said_);
  }
  S3Server(const S3Server&) = delete;
  S3Server& operator=(const S3Server&) = delete;

  /// Fails as these say from now on, and forgets the requests so far.
  void become(std::vector<std::string> arguments) {
    arguments_ = std::move(arguments);
    if (process_ < 0) return;
    std::filesystem::resize_file(directory() / "requests", 0);
    const std::string line = fmt::format("{}\n", arguments_);
    if (::write(::fileno(said_), line.data(), line.size()) != std::ssize(line) || std::fgetc(said_) != '\n') {
      throw std::runtime_error("tell the S3 server");
    }
  }

  std::filesystem::path directory() const { return directory_.path(); }
  /// An object "bucket/key".
  void put(const std::string& name, const std::string& bytes) const { directory_.write(name, bytes); }
  /// Of an object; empty without.
  std::string content(const std::string& name) const { return read_file(directory() / name); }

  /// Where it listens. Starts it.
  int port() {
    if (process_ < 0) start();
    return port_;
  }
  /// For a client that tries again soon, and waits for a server on a busy machine.
  S3Options options() {
    S3Options made{.endpoint = fmt::format("http://127.0.0.1:{}", port()),
                   .access_key = "AKIDEXAMPLE",
                   .secret_key = "test-secret"};
    made.region = "us-east-1";
    made.http.deadline = std::chrono::seconds(60);
    made.http.stall = std::chrono::seconds(15);
    made.http.retry_wait = std::chrono::milliseconds(5);
    return made;
  }

  /// A line for each request: kind, name, range, status, and how many of its kind were under way.
  std::vector<std::string> requests() const {
    std::ifstream file(directory() / "requests");
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  /// Those of a kind.
  std::vector<std::string> requests(const std::string& kind) const {
    auto lines = requests();
    std::erase_if(lines, [&](const std::string& line) { return !line.starts_with(kind + " "); });
    return lines;
  }
  /// How many there were of a kind.
  std::ptrdiff_t count(const std::string& kind) const { return std::ssize(requests(kind)); }
  /// The most of a kind that were under way at once.
  int most_at_once(const std::string& kind) const {
    int most = 0;
    for (const std::string& line : requests(kind))
      most = std::max(most, std::stoi(line.substr(line.rfind(' '))));
    return most;
  }

 private:
  void start() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
      throw std::runtime_error("make sockets");
    }
    const std::string command = fmt::format("exec {} '{}/remote/s3_server.py' {} {}", ROTA_TEST_PYTHON,
                                            ROTA_TESTS, directory().native(), fmt::join(arguments_, " "));
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(ends[1], 0);
      ::dup2(ends[1], 1);
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    said_ = ::fdopen(ends[0], "r");
    if (std::fscanf(said_, "%d", &port_) != 1 || std::fgetc(said_) != '\n') {
      throw std::runtime_error("start the S3 server");
    }
  }

  TemporaryDirectory directory_;
  std::vector<std::string> arguments_;
  pid_t process_ = -1;
  FILE* said_ = nullptr;
  int port_ = 0;
};

}  // namespace rota::test
