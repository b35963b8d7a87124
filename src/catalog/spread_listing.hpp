#pragma once

// Names that are spread over ranks, each of which keeps a part, and brings those that it needs next.

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "catalog/listing.hpp"
#include "mpi/messages.hpp"
#include "rota/mpi.hpp"
#include "rota/world.hpp"

namespace rota {

/// Which rank keeps which files: blocks of a NameTable go round the ranks.
struct SpreadPlan {
  World world;
  std::size_t files = 0;

  [[nodiscard]] int owner(std::size_t file) const noexcept;
  /// The place of `file` among those of its owner, and the other way round for this rank's.
  [[nodiscard]] std::size_t place(std::size_t file) const noexcept;
  [[nodiscard]] std::size_t file(std::size_t place) const noexcept;
};

/// **Collective.** Rank 0's `put` adds names to a builder, whose blocks go to their owners while they are
/// made. Returns this rank's names, and how many there are of all. Throws on all ranks what `put` throws.
NameTable hand_out_blocks(const mpi::Communicator& comm, std::string_view phase,
                          const std::function<void(NameTableBuilder&)>& put, std::size_t& files);

/// *Any thread* reads what was brought; `bring` is for *one thread*.
class SpreadListing final : public Listing {
 public:
  /// What is known of one file.
  struct Entry {
    std::string name;
    FileStat stat;
  };
  using Brought = std::unordered_map<std::size_t, Entry>;
  /// All that is brought and still wanted.
  using Here = std::vector<std::shared_ptr<const Brought>>;

  /// `comm` must outlive it. `own` are this rank's names, and `stats` theirs, or none.
  SpreadListing(const mpi::Communicator& comm, const SpreadPlan& plan, NameTable own,
                std::vector<FileStat> stats);

  [[nodiscard]] std::size_t size() const noexcept override { return plan_.files; }
  [[nodiscard]] std::unique_ptr<Reader> read_names() const override;
  [[nodiscard]] FileStat stat(std::size_t i) const override;
  [[nodiscard]] bool is_spread() const noexcept override { return true; }
  [[nodiscard]] std::shared_ptr<const void> bring(std::span<const std::size_t> files) const override;
  /// Bytes of this rank's names, and of those that are brought.
  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  [[nodiscard]] Here here() const;
  [[nodiscard]] std::vector<std::byte> pack(std::span<const std::byte> wanted) const;
  void unpack(std::span<const std::size_t> files, const mpi::Messages& told, Brought& to) const;

  const mpi::Communicator& comm_;
  SpreadPlan plan_;
  NameTable own_;
  std::vector<FileStat> stats_;
  mutable std::mutex mutex_;
  mutable std::vector<std::weak_ptr<const Brought>> brought_;
};

}  // namespace rota
