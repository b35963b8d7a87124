#pragma once

// Rows of decoded chunks, kept for reads to come.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "core/mutex.hpp"
#include "formats/hdf5/layout.hpp"
#include "rota/world.hpp"
#include "source/read_plan.hpp"

namespace rota::internal {

/// Rows of one slab, the chunks that share the same rows.
struct RowPiece {
  std::int64_t slab = 0;
  std::int64_t row = 0;  ///< in the slab
  std::int64_t count = 0;
  std::byte* to = nullptr;
};

/// Keeps rows of decoded slabs in bounded memory, so that a slab is decoded once for all its rows. By plans
/// it knows what will be read, and when: what is needed last goes first. While there is room, slabs are kept
/// as wholes; then rows that are needed are cut out. Without a plan, what was read last stays. *Any thread.*
///
/// **Example.** Slabs of 24 rows, shuffled over all the data, and room for a quarter of it: each is decoded
/// two to four times. Kept as wholes, it would be 18 times, for each has its next row soon. The idea: L. A.
/// Belady, "A Study of Replacement Algorithms for a Virtual-Storage Computer", IBM Systems Journal 5 (1966).
class ChunkMemory {
 private:
  struct Entry;

 public:
  /// Some rows of a slab of a dataset, which lives longer than this.
  struct Rows {
    const Hdf5Dataset* dataset = nullptr;
    std::int64_t slab = 0;
    std::int64_t row = 0;  ///< in the slab
    std::int64_t count = 0;
    std::int64_t sample = 0;  ///< in what is told together
  };
  struct Slab {
    const Hdf5Dataset* dataset = nullptr;
    std::int64_t slab = 0;
    friend bool operator==(const Slab&, const Slab&) = default;
  };

  /// A slab that this thread decodes, while others wait for it. Left without `publish`, one of these does.
  class Claim {
   public:
    Claim() = default;
    ~Claim() { end(false); }
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;
    /// Memory for what is to be kept: the whole slab, some rows, or none.
    [[nodiscard]] std::span<const RowPiece> kept() const noexcept { return kept_; }
    [[nodiscard]] bool is_whole() const noexcept { return is_whole_; }
    /// Once it is filled.
    void publish() noexcept { end(true); }

   private:
    friend class ChunkMemory;
    void end(bool is_filled) noexcept;

    ChunkMemory* memory_ = nullptr;
    Entry* entry_ = nullptr;
    bool is_whole_ = false;
    std::size_t bytes_ = 0;  // that the memory counts for it
    std::vector<RowPiece> kept_;
    std::vector<std::shared_ptr<std::byte[]>> owners_;  // of kept_
  };
  enum class Answer { copied, claimed, coming };

  /// `limit` is in bytes, what is needed to find them included. One without bytes counts them, and holds
  /// none: pieces to be copied are nowhere, and claims are published at once.
  explicit ChunkMemory(std::size_t limit, bool has_bytes = true) : limit_(limit), has_bytes_(has_bytes) {}
  /// Whether a forked child has it from its parent, whose threads may have held its lock: it is of no use.
  [[nodiscard]] bool is_of_parent() const noexcept { return process_ != this_process(); }

  /// Copies the rows `wanted` of one slab of `dataset` to where they belong, if they are kept. Else the
  /// caller decodes it, with `claim`, unless another thread does: then it `waits` for that.
  /// `wanted` is by row. May throw std::bad_alloc.
  Answer take(const Hdf5Dataset& dataset, std::span<const RowPiece> wanted, bool waits, Claim& claim);
  /// Gives the caller what the plans need next and nobody decodes yet, with `claim`; nothing where there is
  /// none, or no room that nobody needs. For those who would wait. May throw std::bad_alloc.
  std::optional<Slab> take_next(Claim& claim);
  /// What so many rows take of it, side by side.
  static std::size_t kept_bytes(std::size_t row_bytes, std::int64_t rows) noexcept;
  [[nodiscard]] std::size_t limit() const noexcept { return limit_; }
  [[nodiscard]] ReadCounts decoded() const;

  class Plan;

 private:
  using Number = std::int64_t;  // of a sample, among those of its plan
  struct HashSlab {
    std::size_t operator()(const Slab& slab) const noexcept;
  };
  struct Use {  // of some rows
    Number at = 0;
    Plan* plan = nullptr;
    std::uint32_t row = 0;
    std::uint32_t count = 0;  // 0: it is over
  };
  struct Cut {
    Use use;  // the first
    std::shared_ptr<std::byte[]> bytes;
  };
  struct Entry {  // a slab
    Slab key = {};
    std::size_t row_bytes = 0;
    std::size_t held_bytes = 0;  // of a row that is kept; none in a memory without bytes
    std::int64_t rows = 0;
    std::vector<Use> uses = {};  // in order
    std::size_t next = 0;        // those before are over
    std::int64_t due = 0;        // rows of all uses
    bool is_coming = false;
    std::shared_ptr<std::byte[]> whole = {};
    Number rank = 0;                         // of `whole`
    Plan* plan = nullptr;                    // which needs `whole` last; null: none does
    std::map<std::uint32_t, Cut> cuts = {};  // by row
  };
  // What can go: a whole slab, or what was cut out of one. What has the highest rank is needed last.
  using Item = std::tuple<Number, Entry*, std::uint32_t>;
  using Items = std::set<Item>;
  struct Copy {
    std::shared_ptr<const std::byte[]> owner;
    const std::byte* from;
    std::byte* to;
    std::size_t bytes;
  };
  static constexpr std::uint32_t kWhole = ~std::uint32_t{0};

  Entry& entry_of(const Hdf5Dataset& dataset, std::int64_t slab) ROTA_REQUIRES(mutex_);
  void forget_if_empty(Entry& entry) ROTA_REQUIRES(mutex_);
  static bool find(const Entry& entry, std::span<const RowPiece> wanted, std::vector<Copy>& copies);

  static std::vector<Use> first_uses(const Entry& entry);
  void use_up(Entry& entry, std::span<const RowPiece> wanted) ROTA_REQUIRES(mutex_);
  void end_use(Entry& entry, Use& use) ROTA_REQUIRES(mutex_);
  void end_stale(Entry& entry) ROTA_REQUIRES(mutex_);
  Entry* next_due() ROTA_REQUIRES(mutex_);
  void sweep() ROTA_REQUIRES(mutex_);
  static void drop_used(Entry& entry);

  void claim(Entry& entry, Claim& claim) ROTA_REQUIRES(mutex_);
  void keep(Entry& entry, Claim& claim) ROTA_REQUIRES(mutex_);
  void end(Claim& claim, bool is_filled) noexcept;
  void keep_filled(Entry& entry, Claim& claim) ROTA_REQUIRES(mutex_);
  bool make_room(std::size_t bytes, Number ahead) ROTA_REQUIRES(mutex_);
  void evict_last(Items& items) ROTA_REQUIRES(mutex_);
  Items& items_of(Plan* plan) ROTA_REQUIRES(mutex_);
  static Number ahead_of(const Use& use) noexcept;
  void rank_whole(Entry& entry) ROTA_REQUIRES(mutex_);
  void add_cut(Entry& entry, const Use& use, std::shared_ptr<std::byte[]> bytes) ROTA_REQUIRES(mutex_);
  void drop_cut(Entry& entry, std::uint32_t row) ROTA_REQUIRES(mutex_);

  struct Spare {  // memory that a whole slab has left, for the next of its size: its pages are there
    Mutex mutex = {};
    std::unique_ptr<std::byte[]> data ROTA_GUARDED_BY(mutex) = {};
    std::size_t bytes ROTA_GUARDED_BY(mutex) = 0;
  };
  std::shared_ptr<std::byte[]> take_slab(std::size_t bytes);

  const int process_ = this_process();
  const std::size_t limit_;
  const bool has_bytes_;
  Spare spare_;
  mutable Mutex mutex_;
  std::condition_variable_any has_come_;
  std::unordered_map<Slab, Entry, HashSlab> entries_ ROTA_GUARDED_BY(mutex_);
  std::vector<Plan*> plans_ ROTA_GUARDED_BY(mutex_);
  Items idle_ ROTA_GUARDED_BY(mutex_);            // what no plan needs
  std::deque<Slab> due_ ROTA_GUARDED_BY(mutex_);  // by first use; those that have come meanwhile, too
  std::size_t used_ ROTA_GUARDED_BY(mutex_) = 0;
  Number reads_ ROTA_GUARDED_BY(mutex_) = 0;
  ReadCounts decoded_ ROTA_GUARDED_BY(mutex_);
};

/// What one loader will read, in order. Of what several need, goes what is farthest ahead in its own plan:
/// none is without memory, however long the others pause.
class ChunkMemory::Plan {
 public:
  /// What was told more than `open` samples ago is over. `memory` must outlive it.
  Plan(ChunkMemory& memory, std::int64_t open);
  ~Plan();
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  /// Rows of the next `samples` samples.
  void tell(std::span<const Rows> rows, std::int64_t samples);

 private:
  friend class ChunkMemory;
  // The memory's mutex guards all.
  ChunkMemory& memory_;
  const std::int64_t open_;
  Number told_ = 0;        // samples
  Number now_ = 0;         // the last that was read
  Number next_sweep_ = 0;  // of what is over, and was not read
  Items items_ = {};
};

}  // namespace rota::internal
