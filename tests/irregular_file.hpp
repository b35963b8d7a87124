#pragma once

// All that may stand where a file is expected and is none.

#include <sys/socket.h>
#include <sys/un.h>

#include "test.hpp"

namespace rota::test {

/// Something that is no regular file: how to make it, and what an Error calls it.
struct IrregularKind {
  std::string name;
  std::string called;
  std::function<void(const std::filesystem::path&)> make;
  friend std::ostream& operator<<(std::ostream& out, const IrregularKind& kind) { return out << kind.name; }
};

inline void make_socket(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(&address.sun_path[0], path.c_str(), sizeof(address.sun_path) - 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  std::ignore = ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  ::close(fd);
}

inline std::vector<IrregularKind> irregular_kinds() {
  namespace fs = std::filesystem;
  using Path = const fs::path&;
  const auto fifo = [](Path path) { ::mkfifo(path.c_str(), 0666); };
  const auto link_to = [](std::string target) {
    return [target](Path path) { fs::create_symlink(target, path); };
  };
  return {
      {"directory", "a directory", [](Path path) { fs::create_directory(path); }},
      {"fifo", "a FIFO", fifo},
      {"socket", "a socket", make_socket},
      {"dangling", "a link to nothing", link_to("nothing")},
      {"below_a_file", "a link to nothing", link_to("/etc/passwd/nothing")},
      {"loop", "a loop of links", [](Path path) { fs::create_symlink(path.filename(), path); }},
      {"zero", "a device", link_to("/dev/zero")},
      {"null", "a device", link_to("/dev/null")},
      {"link_to_directory", "a directory", link_to(".")},
      {"link_to_fifo", "a FIFO",
       [fifo](Path path) {
         fs::path target = path;
         target += ".target";
         fifo(target);
         fs::create_symlink(target, path);
       }},
  };
}

/// Kills this process where it still runs in a minute: what blocks for ever fails.
inline void end_in_a_minute() { ::alarm(60); }

}  // namespace rota::test
