#pragma once

// Copies of checkpoints in a storage.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/mutex.hpp"
#include "files/file.hpp"
#include "rota/storage.hpp"

namespace rota::checkpoint {

/// Rank 0's. A thread of its own copies, while saves go on. *One thread* calls it at a time.
class Mirror {
 public:
  explicit Mirror(StoredPath place);
  /// Waits until all is copied, or has failed.
  ~Mirror() = default;
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  /// Of the checkpoints that are there, newest first. Throws Error{io} and what else the storage does.
  [[nodiscard]] std::vector<std::int64_t> serials() const;
  /// Brings one here, piece by piece.
  class Fetch {
   public:
    /// To a file of the name `temporary`. Throws as `go_on`.
    Fetch(const Mirror& mirror, std::int64_t serial, const internal::FileSystem& system,
          const std::filesystem::path& temporary);
    /// Brings the next piece, of a GiB. False: there is none. Throws as `serials`, and Error{io} for the
    /// disk.
    bool go_on();
    /// Once all has come: it takes the place of what may be at `to`, in the same `directory`. Nobody has
    /// looked whether it is good.
    void publish(const std::filesystem::path& to, const internal::File& directory) {
      made_.replace(to, directory);
    }

   private:
    const Mirror& mirror_;
    std::string path_;
    StoredFile file_;
    internal::Temporary made_;
    std::uint64_t at_ = 0;  // all before it has come
  };

  /// Has the file copied. It may be deleted meanwhile. Of those that wait for others, only the newest is
  /// copied. Throws nothing but std::bad_alloc: what fails is noted.
  void copy(std::int64_t serial, const std::filesystem::path& file);
  /// Waits until all is copied, or has failed.
  void wait();
  /// What has failed since this was last asked; empty: nothing.
  [[nodiscard]] std::string take_failures();

 private:
  struct Job {
    std::int64_t serial = 0;
    internal::File file;
  };
  [[nodiscard]] std::string name_of(std::int64_t serial) const;
  [[nodiscard]] std::string path_of(std::int64_t serial) const;
  void send_all();
  void note(std::int64_t serial);

  StoredPath place_;
  internal::Mutex mutex_;
  std::optional<Job> next_ ROTA_GUARDED_BY(mutex_);
  bool is_sending_ ROTA_GUARDED_BY(mutex_) = false;
  std::string failures_ ROTA_GUARDED_BY(mutex_);
  std::jthread thread_;  // dies first: it uses all of the above
};

}  // namespace rota::checkpoint
