#pragma once

// A file while it is being written, under a name that no reader takes.

#include <filesystem>
#include <string>

#include "files/file.hpp"

namespace rota::internal {

/// A new file that is deleted unless it is published.
class Temporary {
 public:
  /// Creates `path` and locks it, which tells other jobs that it is in use. Throws Error{io}.
  Temporary(const FileSystem& system, const std::filesystem::path& path);
  ~Temporary();
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  [[nodiscard]] const File& file() const noexcept { return file_; }

  /// Makes the file durable, gives it its name, and makes that durable. `directory` is open. On failure
  /// neither name is left. Throws Error{io}.
  void publish(const std::filesystem::path& name, const File& directory);
  /// The same in the place of what may have that name. A failure leaves what was there; where the directory
  /// is what fails, the new file.
  void replace(const std::filesystem::path& name, const File& directory);

 private:
  void rename_to(const std::filesystem::path& name);

  const FileSystem* system_;
  File file_;
  std::string name_;  // that the file has now; empty once it is published
};

/// Whether nobody writes the temporary `path` any more. Where there are no locks, nobody can tell: false.
bool is_dead(const FileSystem& system, const std::string& path);

}  // namespace rota::internal
