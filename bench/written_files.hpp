#pragma once

// Files that a Python program writes for a benchmark.

#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace rota::bench {

/// A directory in which `program` has run with the arguments directory, `samples`, `sample_bytes`. Gone when
/// this is. Before any thread runs.
class WrittenFiles {
 public:
  WrittenFiles(const char* program, std::int64_t samples, std::int64_t sample_bytes) {
    std::string pattern = (std::filesystem::temp_directory_path() / "rota-bench-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("make " + pattern);
    path_ = pattern;
    std::ofstream(path_ / "write.py") << program;
    const std::string command =
        fmt::format("{} {}/write.py {} {} {}", ROTA_BENCH_PYTHON, pattern, pattern, samples, sample_bytes);
    // NOLINTNEXTLINE(concurrency-mt-unsafe,cert-env33-c): before any thread runs
    if (std::system(command.c_str()) != 0) throw std::runtime_error("run " + command);
  }
  ~WrittenFiles() { std::filesystem::remove_all(path_); }
  WrittenFiles(const WrittenFiles&) = delete;
  WrittenFiles& operator=(const WrittenFiles&) = delete;

  [[nodiscard]] std::filesystem::path file(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace rota::bench
