#pragma once

// Whether something has a name, asked without listing a directory.

#include <cstdint>
#include <functional>
#include <string>

namespace rota::internal {

/// What came of asking for a name.
struct Existence {
  enum class Kind : std::uint8_t {
    there,
    missing,      ///< nothing has the name, or something of another kind
    forbidden,    ///< this user may not see it, or not read it
    unreachable,  ///< the file system does not tell
  };
  Kind kind = Kind::there;
  int error = 0;  ///< the system's; 0 for what is there, or of another kind
};

/// What is asked for under a name.
enum class NameKind : std::uint8_t {
  readable_file,  ///< a regular file that this user may read
  file,           ///< a regular file
  directory,
};

/// Whether `name`, relative to directory `at`, is of this kind, symbolic links followed.
Existence look_for(int at, const char* name, NameKind kind) noexcept;

/// Asks so in one directory. Any thread.
using LookForName = std::function<Existence(const std::string& name, NameKind kind)>;

}  // namespace rota::internal
