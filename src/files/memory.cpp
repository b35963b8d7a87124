#include "files/memory.hpp"

#include <sys/sysinfo.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <fstream>

namespace rota::internal {

double memory_bytes() {
  double bytes = static_cast<double>(::get_phys_pages()) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  // As a container sees them, of versions 2 and 1. Where there is no limit, there is no number, or a large
  // one.
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    double limit = 0;
    if (std::ifstream(path) >> limit) bytes = std::min(bytes, limit);
  }
  return bytes;
}

bool is_cached(int fd, std::uint64_t offset) noexcept {
  std::byte one{};
  const iovec part{&one, 1};
  return ::preadv2(fd, &part, 1, static_cast<off_t>(offset), RWF_NOWAIT) == 1;
}

}  // namespace rota::internal
