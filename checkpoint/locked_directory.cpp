#include "locked_directory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <random>
#include <thread>

#include "files/descriptor.hpp"
#include "files/temporary.hpp"
#include "rota/error.hpp"

namespace rota::checkpoint {
namespace {

// A job that was killed keeps the lock until the kernel has cleared it away.
internal::Lock lock_patiently(internal::File& file) {
  constexpr auto kPatience = std::chrono::milliseconds(250);
  constexpr auto kLook = std::chrono::milliseconds(5);
  for (const auto until = std::chrono::steady_clock::now() + kPatience;;) {
    const internal::Lock lock = file.try_lock();
    if (lock != internal::Lock::taken_elsewhere || std::chrono::steady_clock::now() > until) return lock;
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace

LockedDirectory open_directory(const internal::FileSystem& system, const std::filesystem::path& path) {
  internal::make_directory(system, path);
  if (system.access(path.c_str(), W_OK | X_OK) != 0) {
    throw internal::write_error("write to checkpoint directory", path.native(), errno);
  }
  LockedDirectory opened{.file = internal::File(system, path.string(), O_RDONLY | O_DIRECTORY)};
  const internal::Lock lock = lock_patiently(opened.file);
  if (lock == internal::Lock::taken_elsewhere) {
    throw Error(ErrorCode::busy,
                fmt::format("lock checkpoint directory {}: another job has locked it, or another "
                            "CheckpointDirectory of this one; use that one, wait, or name another directory",
                            path.string()));
  }
  opened.is_locked = lock == internal::Lock::taken;
  opened.job_id = random_id();
  return opened;
}

RunId random_id() {
  std::random_device random;
  std::array<unsigned, sizeof(RunId) / sizeof(unsigned)> words{};
  for (unsigned& word : words) word = random();
  return std::bit_cast<RunId>(words);
}

}  // namespace rota::checkpoint
