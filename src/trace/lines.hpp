#pragma once

// The files of traces, line by line. Next: record.hpp, which says what is in a line.

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "storage/descriptor.hpp"

namespace rota::trace {

/// Writes a file of lines. Each is in the operating system's hands when the call returns, so that a killed
/// process loses at most the one it was writing. Move-only; *one thread*.
class LineWriter {
 public:
  /// Creates the file. Throws Error{io}, also where there is such a file already.
  explicit LineWriter(std::filesystem::path path);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] bool is_open() const noexcept { return file_.is_open(); }
  /// Adds a line. Throws Error{io}; called again, it takes the place of what was written of it.
  void append(std::string line);
  /// Throws Error{io} where a file system tells only now that something was not written.
  void close();
  /// Takes the file away again.
  void remove() const noexcept { ::unlink(path_.c_str()); }

 private:
  std::filesystem::path path_;
  internal::Descriptor file_;
  std::int64_t bytes_ = 0;  // of whole lines
};

/// Reads such a file. A last line without an end is passed over: its writer was killed. *One thread.*
class LineReader {
 public:
  /// Throws Error{io}.
  explicit LineReader(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// Reads the next line; false at the end. Throws Error{io}.
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

}  // namespace rota::trace
