#pragma once

// Files that the ranks of a node hold in memory together, and what they know of them.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "catalog/files.hpp"
#include "core/mutex.hpp"
#include "files/memory_file.hpp"
#include "formats/file_memory.hpp"
#include "ranks/node_buffer.hpp"
#include "ranks/nodes.hpp"
#include "rota/error.hpp"
#include "source/read_plan.hpp"

namespace rota::internal {

/// For each file of a dataset: whether it is in memory, who has it there, and who needs it. One table for a
/// node, in memory that its ranks share. Any thread of any of them.
///
/// A rank that is killed stops nobody, be it at its work on the table or on a file: what it was to make is
/// for others to make, and what it used is not used any more, within a second of somebody asking. Whoever
/// waits for one that is stopped throws Error{timeout}.
///
/// A file is absent, coming (one process makes it), or ready (that process has it open for the others to
/// open). Ranks begin and end to use it. Files that nobody uses stay while they have no more than
/// `most_bytes`. Those go first that are needed last: of which all ranks have used all, for they come again
/// in the next epoch, the latest of them first, lest each epoch drops what it needs next; then the one that
/// was read longest ago.
class SharedTable {
 public:
  using Address = MemoryFile::Address;
  enum class State : std::uint32_t { absent, coming, ready };

  /// What a rank is told of a file.
  struct Found {
    State state = State::absent;  ///< absent: it is now for this process to make it
    Address address;              ///< where it is, if it is ready
    std::uint32_t version = 0;    ///< changes whenever it is dropped, or comes from somebody else
  };
  static constexpr std::uint32_t kNoRound = 0xFFFFFFFF;
  struct Usage {
    std::int64_t bytes = 0;       ///< of files that are ready or coming
    std::int64_t peak_bytes = 0;  ///< that there ever were
  };

  /// **Collective.** Throws as make_node_memory does. What needs the lock waits for it until `patience` is
  /// over.
  SharedTable(const ranks::Nodes& nodes, std::size_t files, std::int64_t most_bytes,
              std::chrono::milliseconds patience = std::chrono::minutes(10));

  /// Says where `file`, of `bytes` bytes, is; or that this process is to make it, which must then publish it
  /// or forget it.
  Found claim(std::size_t file, std::int64_t bytes);
  /// Tells where the file is that was claimed as `version`. It must stay open until it has another version.
  /// That may be at once where there is no room and nobody uses it: if all ranks have used it meanwhile, or
  /// the caller does not read it either.
  void publish(std::size_t file, const Address& address, std::uint32_t version, bool reads);
  /// The file is absent, if this is still its version: it could not be made, or what was found not be had.
  void forget(std::size_t file, std::uint32_t version);

  /// This process begins to use a file. `round` is what `end_use` returned last, or kNoRound.
  void begin_use(std::size_t file, std::uint32_t round);
  /// It uses it no more; `was_all`: it used all that is in it. Returns a number for the next `begin_use`.
  std::uint32_t end_use(std::size_t file, bool was_all);

  /// Somebody reads a file that is ready.
  void touch(std::size_t file) noexcept;
  [[nodiscard]] std::uint32_t version(std::size_t file) const noexcept;
  [[nodiscard]] Usage usage();

  /// A number that differs when something has changed.
  [[nodiscard]] std::uint32_t changes() const noexcept;
  /// Has all who wait look again.
  void wake() noexcept;
  /// Blocks until `changes` is another than `seen`, for a tenth of a second at most.
  void wait(std::uint32_t seen) const noexcept;
  [[nodiscard]] std::chrono::milliseconds patience() const noexcept { return patience_; }

 private:
  struct Process;
  struct Head;
  struct Entry;
  class Lock;

  [[nodiscard]] std::span<std::uint8_t> uses_of(const Entry& entry) const noexcept;
  void end_round_if_all_had_it(Entry& entry, bool was_all) noexcept;
  void look_for_the_dead() noexcept;
  void count_anew() noexcept;
  static bool is_needed_later(const Entry& a, const Entry& b) noexcept;
  void drop(Entry& entry) noexcept;
  void count_idle(const Entry& entry, int files) noexcept;
  void drop_surplus(const Entry* kept, std::int64_t more) noexcept;

  NodeMemory room_;
  Head* head_;
  std::span<Process> ranks_;  // of the node
  std::span<Entry> entries_;  // one per file
  std::uint8_t* uses_;        // of each file by each rank
  std::size_t rank_;          // of this process
  std::int64_t most_bytes_;
  std::chrono::milliseconds patience_;
};

/// Files of a dataset that are decompressed, or copied, into memory once for all ranks of a node: by the rank
/// that wants one first, for the others to open. Which of them stay is for the node's SharedTable to say. Any
/// thread.
///
/// A rank's own part: what it has open, and a thread that fetches ahead, and lets go what the table has
/// dropped.
class SharedFiles : public std::enable_shared_from_this<SharedFiles> {
 public:
  /// **Collective** over the context of `files`, which are compressed as `encodings` say; those that are not
  /// are shared where CatalogOptions::share_files says so. Null where none is. Throws Error{io}.
  static std::shared_ptr<SharedFiles> make(const FileList& files, std::vector<FileEncoding> encodings,
                                           std::chrono::milliseconds patience = std::chrono::minutes(10));
  /// For `make`.
  SharedFiles(FileList files, std::vector<FileEncoding> encodings, std::chrono::milliseconds patience);
  ~SharedFiles();
  SharedFiles(const SharedFiles&) = delete;
  SharedFiles& operator=(const SharedFiles&) = delete;

  [[nodiscard]] bool has(std::size_t file) const noexcept {
    return shares_all_ || encodings_[file].compression != Compression::none;
  }
  /// Whether the bytes of one that it has are not those of the file.
  [[nodiscard]] bool decompresses(std::size_t file) const noexcept {
    return encodings_[file].compression != Compression::none;
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
  /// As ReadPlan::bring says.
  [[nodiscard]] std::shared_ptr<const void> pin(const FileRange& files, bool reads);

  [[nodiscard]] ReadCounts fetched() const;
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
  Memory fetch(std::size_t file, std::uint32_t version, bool reads);
  [[nodiscard]] Error not_fetched(std::size_t file) const;
  Memory open_other(std::size_t file, const SharedTable::Found& found);
  void keep(std::size_t file, Memory memory, std::uint32_t version, bool is_own) ROTA_REQUIRES(mutex_);
  void let_go(std::size_t file) ROTA_REQUIRES(mutex_);
  void let_dropped_go() ROTA_REQUIRES(mutex_);
  void free_what_was_let_go();
  void start() ROTA_REQUIRES(mutex_);
  void work(const std::stop_token& stop);
  [[nodiscard]] SharedTable::Found claim(std::size_t file) {
    return table_.claim(file, encodings_[file].raw_bytes);
  }
  struct Claimed {
    std::size_t file;
    std::uint32_t version;
  };
  [[nodiscard]] std::optional<Claimed> claim_next();

  FileList files_;
  std::vector<FileEncoding> encodings_;  // of each file
  bool shares_all_;
  SharedTable table_;
  Mutex freeing_;        // is taken before the next
  mutable Mutex mutex_;  // of all that follows; the table's may be taken while it is held
  std::vector<Slot> slots_ ROTA_GUARDED_BY(mutex_);        // one per file
  std::vector<std::size_t> open_ ROTA_GUARDED_BY(mutex_);  // files that have memory here
  // To be freed, which takes a while, without the lock; with room for all that are open.
  std::vector<Memory> let_go_ ROTA_GUARDED_BY(mutex_);
  std::deque<std::size_t> to_fetch_ ROTA_GUARDED_BY(mutex_);  // ahead
  ReadCounts fetched_ ROTA_GUARDED_BY(mutex_);
  std::vector<std::jthread> threads_ ROTA_GUARDED_BY(mutex_);  // last: they use all of the above
};

}  // namespace rota::internal
