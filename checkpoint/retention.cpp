#include "retention.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/message.hpp"
#include "core/option.hpp"
#include "directory_files.hpp"
#include "reader.hpp"
#include "rota/error.hpp"

namespace rota {

void CheckpointPolicy::validate() const {
  constexpr internal::OptionCheck kCheck("set a checkpoint policy");
  kCheck.in_range("keep_last", keep_last, 1);
  kCheck.in_range("keep_every", keep_every, 0, internal::kUnbounded, "0 = none");
  kCheck.in_range("deadline", deadline, internal::kUnboundedTime, "0 = never");
}

namespace checkpoint {

std::string describe(const CheckpointPolicy& policy) {
  return fmt::format("keep_last {}, keep_every {}, {} mirror {}", policy.keep_last, policy.keep_every,
                     policy.mirror.storage != nullptr ? "the" : "no", policy.mirror.path);
}

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

namespace {

// To free the bytes of such a file takes longer than to start a thread for it.
constexpr std::uint64_t kLargeFile = 8 << 20;

// The run that the checkpoint `file` is of; nothing where that cannot be read.
std::optional<RunId> run_of(const internal::FileSystem& system, const std::filesystem::path& file) {
  try {
    return read_page(internal::File(system, file.string(), O_RDONLY)).run_id;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Takes its name away; where it can be opened, what is returned has its bytes for as long as it lives.
internal::File remove(const internal::FileSystem& system, const std::filesystem::path& path) {
  internal::File file;
  try {  // to open it, for another thread to close
    file = internal::File(internal::posix_file_system(), path.string(), O_RDONLY);
  } catch (const Error&) {  // its bytes are then freed here
  }
  system.unlink(path.c_str());
  return file;
}

}  // namespace

bool Retention::go_on_from(const CommitPage& page, const RunId& current,
                           std::span<const CheckpointDirectory::Rejected> rejected) {
  const bool is_first = restored_.empty() && saved_.empty();
  verified_ = page.serial;
  last_step_ = page.step;
  std::int64_t& restored = restored_.try_emplace(page.run_id, page.serial).first->second;
  restored = std::max(restored, page.serial);
  if (!is_first && page.run_id == current) return true;  // it looks at what it came by
  return std::ranges::none_of(list_serials(system_, directory_), [&](std::int64_t serial) {
    const std::filesystem::path file = directory_ / checkpoint_name(serial);
    const bool is_bad =
        std::ranges::find(rejected, file, &CheckpointDirectory::Rejected::path) != rejected.end();
    return serial > page.serial && !is_bad && run_of(system_, file) == page.run_id;
  });
}

// What is to be known of a file; nothing where it is not for this job to judge.
std::optional<Present> Retention::judge(std::int64_t serial,
                                        std::span<const CheckpointDirectory::Rejected> rejected) const {
  const std::filesystem::path path = directory_ / checkpoint_name(serial);
  const bool was_saved = saved_.contains(serial);
  const bool was_bad =
      std::ranges::find(rejected, path, &CheckpointDirectory::Rejected::path) != rejected.end();
  try {
    const CommitPage page = read_page(internal::File(system_, path.string(), O_RDONLY));
    const auto restored = restored_.find(page.run_id);
    const bool is_ancestor = restored != restored_.end() && serial <= restored->second;
    if (!was_saved && !is_ancestor) return std::nullopt;
    return Present{.serial = serial, .step = page.step, .is_good = !was_bad && page.serial == serial};
  } catch (const Error& error) {
    if (error.code() == ErrorCode::unsupported || !was_saved) return std::nullopt;
    return Present{.serial = serial, .is_good = false};
  }
}

void Retention::add(const CommitPage& page, std::span<const CheckpointDirectory::Rejected> rejected) {
  const std::int64_t saved = page.serial;
  saved_.insert(saved);
  if (std::exchange(last_step_, page.step) > page.step) {
    internal::tell(
        fmt::format("{} is of step {}, and what it goes on from is of a later one: were all states of "
                    "the run restored?",
                    (directory_ / checkpoint_name(saved)).string(), page.step));
  }
  std::vector<Present> present;
  std::vector<std::int64_t> others;
  for (const std::int64_t serial : list_serials(system_, directory_)) {
    if (const auto file = judge(serial, rejected)) {
      present.push_back(*file);
    } else {
      others.push_back(serial);
    }
  }
  std::vector<internal::File> large;
  for (const std::int64_t serial : to_drop(present, policy_, verified_)) {
    internal::File file = remove(system_, directory_ / checkpoint_name(serial));
    if (file.is_open() && file.size() >= kLargeFile) large.push_back(std::move(file));
  }
  if (!large.empty()) freeing_ = std::jthread([files = std::move(large)] {});
  if (!std::exchange(has_told_, true) && !others.empty()) tell_of(others, saved);
}

void Retention::tell_of(std::span<const std::int64_t> others, std::int64_t saved) const {
  std::string text =
      fmt::format("{} has checkpoints of other runs, or newer than what was restored: {}. They stay.",
                  directory_.string(), fmt::join(others, ", "));
  if (restored_.empty()) {
    text += fmt::format(
        " Nothing was restored before {} was saved: if this run was to go on, end it, delete {} and what it "
        "saves after it, and call restore_all first",
        saved, checkpoint_name(saved));
  }
  internal::tell(text);
}

}  // namespace checkpoint
}  // namespace rota
