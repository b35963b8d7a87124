#pragma once

// Files that are compressed as a whole, read as if they were not.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "source/records.hpp"

namespace rota {

/// Files of zstd frames, each unpacked into anonymous memory when it is wanted. Those that were used last are
/// kept; others are there while they are held. Any thread; of those that want the same file, one unpacks it
/// and the others wait.
class UnpackedFiles {
 public:
  /// For `files` files. Keeps `most_bytes` of memory, or one file if that is larger; what is held or being
  /// unpacked by others may come on top.
  UnpackedFiles(std::size_t files, std::uint64_t most_bytes) : most_bytes_(most_bytes), slots_(files) {}

  /// What `file` unpacks to, which must be `raw_bytes` bytes. Blocks on storage. Memory is taken as data
  /// come. Throws Error{corrupt} naming the file and a byte of it, Error{io}.
  [[nodiscard]] Unpacked open(const RecordFile& file, std::uint64_t raw_bytes);

 private:
  struct Kept {
    std::size_t file;
    std::uint64_t bytes;
    Unpacked memory;
  };
  using KeptFiles = std::list<Kept>;
  struct Slot {
    bool is_being_unpacked = false;
    std::weak_ptr<const Descriptor> memory;  // kept or held
    std::optional<KeptFiles::iterator> kept;
  };

  Unpacked unpack(const RecordFile& file, std::uint64_t raw_bytes, std::unique_lock<std::mutex>& lock);
  void keep(std::size_t file, const Unpacked& memory, std::uint64_t bytes);
  [[nodiscard]] KeptFiles take_surplus(std::size_t least_kept);

  std::uint64_t most_bytes_;
  std::mutex mutex_;  // of all that follows
  std::condition_variable unpacked_;
  std::vector<Slot> slots_;         // one per file
  KeptFiles kept_;                  // the one used last first
  std::uint64_t kept_bytes_ = 0;    // of kept_
  std::uint64_t coming_bytes_ = 0;  // of files that are being unpacked
};

}  // namespace rota
