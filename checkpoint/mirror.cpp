#include "mirror.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>

#include "core/caught.hpp"
#include "core/failure.hpp"
#include "core/message.hpp"
#include "core/scarce.hpp"
#include "directory_files.hpp"

namespace rota::checkpoint {

using internal::caught;

Mirror::Mirror(StoredPath place) : place_(std::move(place)) {
  if (!place_.name.ends_with('/')) place_.name += '/';
  if (!place_.path.ends_with('/')) place_.path += '/';
}

std::string Mirror::name_of(std::int64_t serial) const { return place_.name + checkpoint_name(serial); }
std::string Mirror::path_of(std::int64_t serial) const { return place_.path + checkpoint_name(serial); }

std::vector<std::int64_t> Mirror::serials() const {
  std::vector<std::int64_t> found;
  try {
    place_.storage->list(place_.name, [&](const StoredFile& file) {
      const auto serial = serial_of(std::string_view(file.name).substr(place_.name.size()));
      if (serial && *serial < kMaxSerial) found.push_back(*serial);  // else it is no job's: none could follow
    });
  } catch (...) {
    throw caught().as_error_of(place_.path, fmt::format("list checkpoints in {}", place_.path));
  }
  std::ranges::sort(found, std::greater());
  return found;
}

Mirror::Fetch::Fetch(const Mirror& mirror, std::int64_t serial, const internal::FileSystem& system,
                     const std::filesystem::path& temporary)
    : mirror_(mirror), path_(mirror.path_of(serial)), made_(system, temporary) {
  try {
    const auto file = mirror.place_.storage->find(mirror.name_of(serial));
    if (!file) throw internal::failure(ErrorCode::io, "read {}: it is gone", path_);
    file_ = *file;
  } catch (...) {
    throw caught().as_error_of(path_, fmt::format("read {}", path_));
  }
  if (file_.bytes > 0) made_.file().allocate(file_.bytes);
}

bool Mirror::Fetch::go_on() {
  constexpr std::uint64_t kPiece = std::uint64_t{1} << 30;
  constexpr std::uint64_t kAtOnce = std::uint64_t{64} << 20;
  const std::uint64_t end = std::min(file_.bytes, at_ + kPiece);
  std::vector<std::byte> bytes;
  try {
    while (at_ < end) {
      bytes.resize(std::min(kAtOnce, end - at_));
      StoredBytes wanted{.file = &file_, .offset = at_, .to = bytes};
      mirror_.place_.storage->read(std::span(&wanted, 1));
      if (wanted.error != nullptr) std::rethrow_exception(wanted.error);
      made_.file().write(at_, bytes);
      at_ += bytes.size();
    }
  } catch (...) {
    throw caught().as_error_of(path_, fmt::format("read {}", path_));
  }
  return at_ < file_.bytes;
}

void Mirror::copy(std::int64_t serial, const std::filesystem::path& file) {
  try {
    internal::File opened(internal::posix_file_system(), file.string(), O_RDONLY);  // for another thread
    const internal::MutexLock lock(mutex_);
    next_ = Job{.serial = serial, .file = std::move(opened)};
    if (is_sending_) return;
    thread_ = internal::start_thread("copy a checkpoint", [this] { send_all(); });
    is_sending_ = true;
  } catch (...) {
    note(serial);
  }
}

void Mirror::wait() {
  if (thread_.joinable()) thread_.join();
}

std::string Mirror::take_failures() {
  const internal::MutexLock lock(mutex_);
  return std::exchange(failures_, {});
}

void Mirror::send_all() {
  for (;;) {
    std::optional<Job> job;
    {
      const internal::MutexLock lock(mutex_);
      job = std::exchange(next_, std::nullopt);
      is_sending_ = job.has_value();
    }
    if (!job) return;
    const auto fill = [&](std::uint64_t offset, std::span<std::byte> to) { job->file.read(offset, to); };
    try {
      place_.storage->write(name_of(job->serial), job->file.size(), fill);
    } catch (...) {
      note(job->serial);
    }
  }
}

// The exception at hand.
void Mirror::note(std::int64_t serial) {
  const std::string path = path_of(serial);
  const std::string text = caught().as_error_of(path, fmt::format("copy {}", path)).what();
  internal::tell(fmt::format("a checkpoint is saved, but not copied: {}", text));
  const internal::MutexLock lock(mutex_);
  if (!failures_.empty()) failures_ += "; ";
  failures_ += text;
}

}  // namespace rota::checkpoint
