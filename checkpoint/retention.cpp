#include "retention.hpp"

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "file_name.hpp"
#include "reader.hpp"
#include "rota/error.hpp"

namespace rota::checkpoint {

std::vector<std::int64_t> to_drop(std::span<const Present> newest_first, const CheckpointPolicy& policy,
                                  std::int64_t verified) {
  std::vector<std::int64_t> dropped;
  std::int64_t kept = 0;
  for (const auto& [serial, step, is_good] : newest_first) {
    const bool is_milestone = is_good && policy.keep_every > 0 && step % policy.keep_every == 0;
    if (kept >= policy.keep_last && !is_milestone && serial != verified) dropped.push_back(serial);
    if (is_good) ++kept;
  }
  return dropped;
}

std::optional<RunId> run_of(const FileSystem& system, const std::filesystem::path& file) {
  try {
    return read_page(File(system, file.string(), O_RDONLY)).run_id;
  } catch (const Error&) {
    return std::nullopt;
  }
}

namespace {

// To free the bytes of such a file takes longer than to start a thread for it.
constexpr std::uint64_t kLargeFile = 8 << 20;

// What retention is to know of a file; nothing where it is not for this job to judge.
std::optional<Present> judge(const FileSystem& system, const std::filesystem::path& path, std::int64_t serial,
                             const Lineage& lineage, std::span<const RejectedCheckpoint> rejected) {
  const bool was_saved = lineage.saved.contains(serial);
  const bool was_bad = std::ranges::find(rejected, path, &RejectedCheckpoint::path) != rejected.end();
  try {
    const CommitPage page = read_page(File(system, path.string(), O_RDONLY));
    const auto restored = lineage.restored.find(page.run_id);
    const bool is_ancestor = restored != lineage.restored.end() && serial <= restored->second;
    if (!was_saved && !is_ancestor) return std::nullopt;
    return Present{.serial = serial, .step = page.step, .is_good = !was_bad && page.serial == serial};
  } catch (const Error& error) {
    if (error.code() == ErrorCode::unsupported || !was_saved) return std::nullopt;
    return Present{.serial = serial, .is_good = false};
  }
}

// Takes its name away; where it can be opened, what is returned has its bytes for as long as it lives.
File remove(const FileSystem& system, const std::filesystem::path& path) {
  File file;
  try {
    file = File(posix_file_system(), path.string(), O_RDONLY);  // for another thread to close
  } catch (const Error&) {
    file = {};
  }
  system.unlink(path.c_str());
  return file;
}

}  // namespace

Dropped drop_old(const FileSystem& system, const std::filesystem::path& directory,
                 std::span<const std::int64_t> serials_newest_first, const CheckpointPolicy& policy,
                 const Lineage& lineage, std::int64_t verified,
                 std::span<const RejectedCheckpoint> rejected) {
  std::vector<Present> present;
  Dropped dropped;
  for (const std::int64_t serial : serials_newest_first) {
    const auto file = judge(system, directory / checkpoint_name(serial), serial, lineage, rejected);
    if (file) {
      present.push_back(*file);
    } else {
      dropped.others.push_back(serial);
    }
  }
  std::vector<File> large;
  for (const std::int64_t serial : to_drop(present, policy, verified)) {
    File file = remove(system, directory / checkpoint_name(serial));
    if (file.is_open() && file.size() >= kLargeFile) large.push_back(std::move(file));
  }
  if (!large.empty()) dropped.freeing = std::jthread([files = std::move(large)] {});
  return dropped;
}

}  // namespace rota::checkpoint
