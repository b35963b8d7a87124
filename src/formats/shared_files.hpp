#pragma once

// Files that the ranks of a node hold in memory together.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "catalog/files.hpp"
#include "core/mutex.hpp"
#include "formats/file_memory.hpp"
#include "formats/shared_table.hpp"
#include "rota/error.hpp"
#include "source/node_files.hpp"

namespace rota::internal {

/// Files of a dataset that are unpacked, or copied, into memory once for all ranks of a node: by the rank
/// that wants one first, for the others to open. Which of them stay is for the node's SharedTable to say. Any
/// thread.
///
/// A rank's own part: what it has open, and a thread that fetches ahead, and lets go what the table has
/// dropped.
class SharedFiles : public std::enable_shared_from_this<SharedFiles> {
 public:
  /// **Collective** over the context of `files`, which are compressed as `packed` says; those that are not
  /// are shared where CatalogOptions::share_files says so. Null where none is. Throws Error{io}.
  static std::shared_ptr<SharedFiles> make(const FileList& files, std::vector<FileEncoding> packed,
                                           std::chrono::milliseconds patience = std::chrono::minutes(10));
  /// For `make`.
  SharedFiles(FileList files, std::vector<FileEncoding> packed, std::chrono::milliseconds patience);
  ~SharedFiles();
  SharedFiles(const SharedFiles&) = delete;
  SharedFiles& operator=(const SharedFiles&) = delete;

  [[nodiscard]] bool has(std::size_t file) const noexcept {
    return shares_all_ || packed_[file].compression != Compression::none;
  }
  /// Whether the bytes of one that it has are not those of the file.
  [[nodiscard]] bool unpacks(std::size_t file) const noexcept {
    return packed_[file].compression != Compression::none;
  }
  /// One that it has. Blocks until it is there. Throws as fetch_file does, and Error{timeout} where another
  /// process has begun to fetch it, and nothing changes on the node until `patience` is over.
  [[nodiscard]] std::shared_ptr<const FileMemory> open(std::size_t file);
  /// Files [first, last); of the first and of the last one all or a part.
  struct FileRange {
    std::size_t first = 0;
    std::size_t last = 0;
    bool has_all_of_first = true;
    bool has_all_of_last = true;
  };
  /// As NodeFiles::pin says.
  [[nodiscard]] std::shared_ptr<const void> pin(const FileRange& files, bool reads);

  [[nodiscard]] Fetched fetched() const;
  [[nodiscard]] SharedTable::Usage usage() { return table_.usage(); }

 private:
  using Memory = std::shared_ptr<const FileMemory>;
  struct Slot {
    Memory memory;
    std::uint32_t version = 0;  // of `memory`, in the table
    bool is_own = false;        // this process has made it, and has it open for the others
    std::int32_t pins = 0;      // in this process
    std::uint32_t round = SharedTable::kNoRound;
  };

  void begin_use(const FileRange& files, bool reads);
  void end_use(const FileRange& files) noexcept;
  [[nodiscard]] Memory find(std::size_t file);
  Memory fetch(std::size_t file, std::uint32_t version);
  [[nodiscard]] Error not_fetched(std::size_t file) const;
  Memory open_other(std::size_t file, const SharedTable::Found& found);
  void keep(std::size_t file, Memory memory, std::uint32_t version, bool is_own) ROTA_REQUIRES(mutex_);
  void let_go(std::size_t file) ROTA_REQUIRES(mutex_);
  void let_dropped_go() ROTA_REQUIRES(mutex_);
  void free_what_was_let_go();
  void start() ROTA_REQUIRES(mutex_);
  void work(const std::stop_token& stop);
  [[nodiscard]] SharedTable::Found claim(std::size_t file) {
    return table_.claim(file, packed_[file].raw_bytes);
  }
  struct Claimed {
    std::size_t file;
    std::uint32_t version;
  };
  [[nodiscard]] std::optional<Claimed> claim_next();

  FileList files_;
  std::vector<FileEncoding> packed_;  // of each file
  bool shares_all_;
  SharedTable table_;
  Mutex freeing_;        // is taken before the next
  mutable Mutex mutex_;  // of all that follows; the table's may be taken while it is held
  std::vector<Slot> slots_ ROTA_GUARDED_BY(mutex_);        // one per file
  std::vector<std::size_t> open_ ROTA_GUARDED_BY(mutex_);  // files that have memory here
  // To be freed, which takes a while, without the lock; with room for all that are open.
  std::vector<Memory> let_go_ ROTA_GUARDED_BY(mutex_);
  std::deque<std::size_t> to_fetch_ ROTA_GUARDED_BY(mutex_);  // ahead
  Fetched fetched_ ROTA_GUARDED_BY(mutex_);
  std::vector<std::jthread> threads_ ROTA_GUARDED_BY(mutex_);  // last: they use all of the above
};

}  // namespace rota::internal
