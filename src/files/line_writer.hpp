#pragma once

// A file of lines, as it grows.

#include <fcntl.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "files/file.hpp"

namespace rota::internal {

/// Writes a file of lines. Each is in the operating system's hands when the call returns, so that a killed
/// process loses at most the one it was writing. Move-only; *one thread*.
class LineWriter {
 public:
  /// Creates the file. Throws Error{io}, also where there is such a file already; Error{not_found}.
  explicit LineWriter(const std::filesystem::path& path)
      : file_(posix_file_system(), path.native(), O_WRONLY | O_CREAT | O_EXCL) {}

  [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }
  [[nodiscard]] bool is_open() const noexcept { return file_.is_open(); }
  /// Adds a line. Throws Error{io}; called again, it takes the place of what was written of it.
  void append(std::string line) {
    line.push_back('\n');
    file_.write(bytes_, std::as_bytes(std::span(line)));
    bytes_ += line.size();
  }
  /// Throws Error{io} where a file system tells only now that something was not written.
  void close() { file_.close(); }
  /// Takes the file away again.
  void remove() const noexcept { posix_file_system().unlink(path().c_str()); }

 private:
  File file_;
  std::uint64_t bytes_ = 0;  // of whole lines
};

}  // namespace rota::internal
