#pragma once

// What the processes of a node know of the files that they share.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "files/memory_file.hpp"
#include "mpi/node_buffer.hpp"
#include "mpi/nodes.hpp"

namespace rota::internal {

/// For each file of a dataset: whether it is in memory, who has it there, and who needs it. One table for a
/// node, in memory that its ranks share. Any thread of any of them. Ranks of a job die together: where one
/// was killed at its work on the table, the others throw Error{timeout} instead of waiting for ever.
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
  SharedTable(const mpi::Nodes& nodes, std::size_t files, std::int64_t most_bytes,
              std::chrono::milliseconds patience = std::chrono::minutes(10));

  /// Says where `file`, of `bytes` bytes, is; or that this process is to make it, which must then publish it
  /// or forget it.
  Found claim(std::size_t file, std::int64_t bytes);
  /// Tells where the file is that was claimed as `version`. It must stay open until it has another version;
  /// that may be at once, where all ranks have used it meanwhile.
  void publish(std::size_t file, const Address& address, std::uint32_t version);
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
  struct Head;
  struct Entry;
  class Lock;

  static bool is_needed_later(const Entry& a, const Entry& b) noexcept;
  void drop(Entry& entry) noexcept;
  void count_idle(const Entry& entry, int files) noexcept;
  void drop_surplus(const Entry* kept, std::int64_t more) noexcept;

  NodeMemory room_;
  Head* head_;
  std::span<Entry> entries_;  // one per file
  std::int64_t most_bytes_;
  std::chrono::milliseconds patience_;
};

}  // namespace rota::internal
