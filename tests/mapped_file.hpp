#pragma once

// What memory is mapped from.

#include "test.hpp"

namespace rota::test {

/// The file behind the mapping that holds `address`, as the system knows it; empty for plain memory.
inline std::string file_behind(const void* address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    std::string permissions;
    std::string offset;
    std::string device;
    std::string inode;
    std::istringstream(line) >> std::hex >> begin >> dash >> end >> permissions >> offset >> device >> inode;
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    if (at >= begin && at < end) return inode == "0" ? std::string() : device.append(":").append(inode);
  }
  return "";
}

}  // namespace rota::test
