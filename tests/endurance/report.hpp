#pragma once

// What the ranks of a program tell the test that started it: lines that are out before anything else happens,
// whatever becomes of the process then.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace rota::test {

/// Lines of one rank, in the file `directory`/<rank>. *Any thread.*
class Report {
 public:
  Report(const std::filesystem::path& directory, int rank)
      : fd_(::open((directory / std::to_string(rank)).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                   0666)) {
    if (fd_ < 0) throw std::runtime_error("cannot write a report into " + directory.string());
  }
  ~Report() { ::close(fd_); }
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  void say(std::string line) const {
    std::ranges::replace(line, '\n', ' ');
    line += '\n';
    if (::write(fd_, line.data(), line.size()) < 0) throw std::runtime_error("cannot write a report");
  }

 private:
  int fd_;
};

/// What a rank has said; nothing where it never came to speak.
inline std::vector<std::string> read_report(const std::filesystem::path& directory, int rank) {
  std::ifstream in(directory / std::to_string(rank));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace rota::test
