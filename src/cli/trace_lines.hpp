#pragma once

// The files of traces, line by line: what is in a line is for trace.hpp and stream_trace.hpp to say.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace rota::tracing {

/// Writes a file of lines. Each is in the operating system's hands when the call returns, so that a killed
/// process loses at most the one it was writing. Move-only; *one thread*.
class TraceLineWriter {
 public:
  /// Creates the file. Throws Error{io}, also where there is such a file already.
  explicit TraceLineWriter(std::filesystem::path path);
  ~TraceLineWriter();
  TraceLineWriter(TraceLineWriter&& other) noexcept;
  TraceLineWriter& operator=(TraceLineWriter&& other) noexcept;

  /// Adds a line. Throws Error{io}.
  void append(std::string line);

 private:
  [[noreturn]] void fail(std::string_view verb) const;

  int file_ = -1;
  std::filesystem::path path_;
};

/// Reads such a file. A last line without an end is passed over: its writer was killed. *One thread.*
class TraceLineReader {
 public:
  /// Throws Error{io}.
  explicit TraceLineReader(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// Reads the next line; false at the end.
  bool next();
  /// The line read last.
  [[nodiscard]] const std::string& line() const noexcept { return line_; }
  /// `why`, headed by the file and the number of that line.
  [[nodiscard]] std::string damaged(std::string_view why) const;

 private:
  std::filesystem::path path_;
  std::ifstream stream_;
  std::string line_;
  std::int64_t number_ = 0;
};

}  // namespace rota::tracing
