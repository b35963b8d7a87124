#pragma once

// Which checkpoints a directory drops, and how.

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "commit_page.hpp"
#include "files/file.hpp"
#include "rota/checkpoint_directory.hpp"

namespace rota::checkpoint {

/// What ranks must have in common, for errors.
[[nodiscard]] std::string describe(const CheckpointPolicy& policy);

/// A checkpoint that is there. A damaged one is not counted among those kept.
struct Present {
  std::int64_t serial = 0;
  std::int64_t step = 0;
  bool is_good = true;
};

/// The serials that `policy` does not keep of `newest_first`. `verified`, the last that was read and verified
/// as a whole (-1: none was), is always kept, as is everything newer than the last one that counts.
[[nodiscard]] std::vector<std::int64_t> to_drop(std::span<const Present> newest_first,
                                                const CheckpointPolicy& policy, std::int64_t verified);

/// Drops what a job may drop: the checkpoints that it wrote, and those of a run up to the one that it
/// restored. Others may be all that is left of a run that it should have gone on with. Rank 0's. *One thread*
/// at a time.
class Retention {
 public:
  /// All must outlive it.
  Retention(const internal::FileSystem& system, const std::filesystem::path& directory,
            const CheckpointPolicy& policy) noexcept
      : system_(system), directory_(directory), policy_(policy) {}

  /// The checkpoint of `page` was read and verified as a whole, and the job may go on from it: a job of run
  /// `current`, or one that has restored and saved nothing yet. Returns whether what it saves is of the run
  /// of `page`. `rejected` are known to be damaged. Throws Error{io}.
  bool go_on_from(const CommitPage& page, const RunId& current,
                  std::span<const CheckpointDirectory::Rejected> rejected);
  /// One was saved: removes those of its lineage that the policy does not keep. `rejected` are known to be
  /// damaged. What cannot be dropped now is dropped by the next call; files of a newer format never are.
  /// Tells the MessageSink once of others that are there, and where steps went back. Throws Error{io}.
  void add(const CommitPage& page, std::span<const CheckpointDirectory::Rejected> rejected);
  /// Waits until the space of what was dropped is free.
  void finish() {
    if (freeing_.joinable()) freeing_.join();
  }

 private:
  std::optional<Present> judge(std::int64_t serial,
                               std::span<const CheckpointDirectory::Rejected> rejected) const;
  void tell_of(std::span<const std::int64_t> others, std::int64_t saved) const;

  const internal::FileSystem& system_;
  const std::filesystem::path& directory_;
  const CheckpointPolicy& policy_;
  std::map<RunId, std::int64_t> restored_;  // the last serial that was, of each run
  std::set<std::int64_t> saved_;
  std::int64_t verified_ = -1;
  std::int64_t last_step_ = -1;
  bool has_told_ = false;
  std::jthread freeing_;  // the bytes of large files
};

}  // namespace rota::checkpoint
