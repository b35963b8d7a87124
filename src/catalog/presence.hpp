#pragma once

// Whether something has a name, asked without listing a directory.

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/descriptor.hpp"

namespace rota {

/// What came of asking for a name.
struct Presence {
  enum class Kind : std::uint8_t {
    there,
    missing,      ///< nothing has the name, or something of another kind
    forbidden,    ///< this user may not see it, or not read it
    unreachable,  ///< the file system does not tell
  };
  Kind kind = Kind::there;
  int error = 0;  ///< the system's; 0 for what is there, or of another kind
};

/// Whether `name`, relative to directory `at`, is of this kind (S_IFREG, S_IFDIR), symbolic links followed.
Presence look_for(int at, const char* name, mode_t kind) noexcept;
/// Whether it is a regular file that this user may read.
Presence look_for_readable(int at, const char* name) noexcept;

/// Some of a directory's names, in no order.
struct Glance {
  std::vector<std::string> files;
  std::vector<std::string> folders;
  bool is_whole = true;  ///< there are no more
};

/// A directory that is asked for names. What it cannot tell, it throws: Error{io} naming the path.
class AskedDirectory {
 public:
  /// `path`: empty, or ending in a slash. Throws Error{not_found}, Error{io}.
  explicit AskedDirectory(std::string path);

  [[nodiscard]] bool has_file(const std::string& name) const { return has(name, S_IFREG); }
  [[nodiscard]] bool has_directory(const std::string& name) const { return has(name, S_IFDIR); }
  /// At most `most` of the names in `directory` below this one, empty for itself, but for hidden ones.
  [[nodiscard]] Glance glance(const std::string& directory, std::size_t most) const;
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  [[nodiscard]] bool has(const std::string& name, mode_t kind) const;

  std::string path_;
  Descriptor opened_;
};

}  // namespace rota
