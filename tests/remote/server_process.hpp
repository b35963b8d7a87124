#pragma once

// An S3 server in a process of its own, for one test.

#include "test.hpp"

namespace rota::test {

/// Serves what is put into it, and fails as the arguments of s3_server.py say. It ends with this.
class S3Server {
 public:
  explicit S3Server(std::vector<std::string> arguments = {}) : arguments_(std::move(arguments)) {}
  ~S3Server() { stop(); }
  S3Server(const S3Server&) = delete;
  S3Server& operator=(const S3Server&) = delete;

  [[nodiscard]] std::filesystem::path directory() const { return directory_.path(); }
  /// An object "bucket/key".
  void put(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((directory() / name).parent_path());
    std::ofstream(directory() / name, std::ios::binary) << bytes;
  }

  /// Where it listens. Starts it.
  int port() {
    if (process_ < 0) start();
    return port_;
  }
  /// For a client that loses patience soon.
  S3Options options() {
    S3Options made{.endpoint = "http://127.0.0.1:" + std::to_string(port()),
                   .credentials = {.access_key = "AKIDEXAMPLE", .secret_key = "test-secret"}};
    made.region = "us-east-1";
    made.http.deadline = std::chrono::seconds(20);
    made.http.stall = std::chrono::seconds(1);
    made.http.retry_wait = std::chrono::milliseconds(5);
    made.http.hedge_after = {};  // tests count requests
    return made;
  }
  /// A line for each request: kind, name, range, status.
  [[nodiscard]] std::vector<std::string> requests() const {
    std::ifstream file(directory() / "requests");
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

  /// How many there were of a kind.
  [[nodiscard]] std::ptrdiff_t count(const std::string& kind) const {
    return std::ranges::count_if(requests(),
                                 [&](const std::string& line) { return line.starts_with(kind + " "); });
  }

  void stop() {
    if (process_ < 0) return;
    ::close(input_);
    int status = 0;
    for (int i = 0; i < 200 && ::waitpid(process_, &status, WNOHANG) == 0; ++i) ::usleep(10'000);
    if (::waitpid(process_, &status, WNOHANG) == 0) {
      ::kill(process_, SIGKILL);
      ::waitpid(process_, &status, 0);
    }
    process_ = -1;
  }

 private:
  void start() {
    std::array<int, 2> in{};
    std::array<int, 2> out{};
    if (::pipe2(in.data(), O_CLOEXEC) != 0 || ::pipe2(out.data(), O_CLOEXEC) != 0) {
      throw std::runtime_error("make pipes");
    }
    std::vector<std::string> words{ROTA_TEST_PYTHON, ROTA_TESTS "/remote/s3_server.py", directory().string()};
    words.insert(words.end(), arguments_.begin(), arguments_.end());
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(in[0], 0);
      ::dup2(out[1], 1);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    input_ = in[1];
    FILE* const said = ::fdopen(out[0], "r");
    if (std::fscanf(said, "%d", &port_) != 1) throw std::runtime_error("start the S3 server");
    std::fclose(said);
  }

  TemporaryDirectory directory_;
  std::vector<std::string> arguments_;
  pid_t process_ = -1;
  int input_ = -1;
  int port_ = 0;
};

}  // namespace rota::test
