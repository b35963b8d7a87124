#include "core/read_tally.hpp"

#include <fstream>

namespace rota::internal {

ReadTally& ReadTally::here() noexcept {
  thread_local ReadTally tally;
  return tally;
}

std::int64_t bytes_from_disk() {
  std::ifstream io("/proc/self/io");
  std::string name;
  for (std::int64_t value = 0; io >> name >> value;) {
    if (name == "read_bytes:") return value;
  }
  return 0;
}

}  // namespace rota::internal
