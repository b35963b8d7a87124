#include "directory_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <functional>
#include <random>
#include <thread>

#include "core/failure.hpp"
#include "files/descriptor.hpp"
#include "reader.hpp"

namespace rota::checkpoint {
namespace {

constexpr std::string_view kStem = "checkpoint-";
constexpr std::string_view kEnding = ".h5";
constexpr std::string_view kTemporaryEnding = ".tmp";

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

bool is_temporary(std::string_view name) {
  return name.starts_with('.') && name.substr(1).starts_with(kStem) && name.ends_with(kTemporaryEnding);
}

std::string checkpoint_name(std::int64_t serial) { return fmt::format("{}{:012}{}", kStem, serial, kEnding); }

std::string temporary_name(std::int64_t serial, std::string_view job_id) {
  return fmt::format(".{}{:012}.{}{}", kStem, serial, job_id, kTemporaryEnding);
}

std::optional<std::int64_t> serial_of(std::string_view name) {
  if (!name.starts_with(kStem)) return std::nullopt;
  std::int64_t serial = -1;
  std::from_chars(name.data() + kStem.size(), name.data() + name.size(), serial);
  if (serial < 0 || serial > kMaxSerial || name != checkpoint_name(serial)) return std::nullopt;
  return serial;
}

std::vector<std::int64_t> list_serials(const internal::FileSystem& system,
                                       const std::filesystem::path& directory) {
  std::vector<std::int64_t> serials;
  for (const std::string& name : internal::list_names(system, directory)) {
    if (const auto serial = serial_of(name)) serials.push_back(*serial);
  }
  std::ranges::sort(serials, std::greater());
  return serials;
}

std::vector<CommitPage> list_pages(const internal::FileSystem& system,
                                   const std::filesystem::path& directory) {
  std::vector<CommitPage> pages;
  for (const std::int64_t serial : list_serials(system, directory)) {
    const std::string path = (directory / checkpoint_name(serial)).string();
    try {
      const CommitPage page = read_page(internal::File(system, path, O_RDONLY));
      if (page.serial == serial) pages.push_back(page);  // else it belongs to another file
    } catch (const Error&) {
      continue;  // it does not verify
    }
  }
  std::ranges::reverse(pages);
  return pages;
}

void sweep_temporaries(const internal::FileSystem& system, const std::filesystem::path& directory,
                       std::string_view job_id) {
  for (const std::string& name : internal::list_names(system, directory)) {
    if (!is_temporary(name)) continue;
    const std::string path = (directory / name).string();
    if (name.find(job_id) != std::string::npos || internal::is_dead(system, path))
      system.unlink(path.c_str());
  }
}

LockedDirectory open_directory(const internal::FileSystem& system, const std::filesystem::path& path) {
  internal::make_directory(system, path);
  if (system.access(path.c_str(), W_OK | X_OK) != 0) {
    throw internal::write_error("write to checkpoint directory", path.native(), errno);
  }
  LockedDirectory opened{.file = internal::File(system, path.string(), O_RDONLY | O_DIRECTORY)};
  const internal::Lock lock = lock_patiently(opened.file);
  if (lock == internal::Lock::taken_elsewhere) {
    throw internal::failure(
        ErrorCode::busy,
        "lock checkpoint directory {}: another job has locked it, or another "
        "CheckpointDirectory of this one (in a notebook, that of the run before); use that "
        "one, destroy it (in Python, close()), wait, or name another directory",
        path.string());
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
