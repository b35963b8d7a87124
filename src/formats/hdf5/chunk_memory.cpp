#include "formats/hdf5/chunk_memory.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace rota::internal {
namespace {

// Ranks of what no plan needs; what was read last has the lowest.
constexpr std::int64_t kIdle = std::int64_t{1} << 62;
// Of slabs of which much is not needed.
constexpr std::int64_t kSparse = std::int64_t{1} << 61;

}  // namespace

std::size_t ChunkMemory::kept_bytes(std::size_t row_bytes, std::int64_t rows) noexcept {
  constexpr std::size_t kNoteBytes = 256;  // for finding them
  return row_bytes * static_cast<std::size_t>(rows) + kNoteBytes;
}

// ---- plans ----

ChunkMemory::Plan::Plan(ChunkMemory& memory, std::int64_t open) : memory_(memory), open_(open) {
  const MutexLock lock(memory.mutex_);
  memory.plans_.push_back(this);
}

ChunkMemory::Plan::~Plan() {
  if (memory_.is_of_parent()) return;
  const MutexLock lock(memory_.mutex_);
  told_ = kIdle;  // so all of it is over
  memory_.sweep();
  std::erase(memory_.plans_, this);
}

void ChunkMemory::Plan::tell(std::span<const Rows> rows, std::int64_t samples) {
  const MutexLock lock(memory_.mutex_);
  for (const Rows& one : rows) {
    Entry& entry = memory_.entry_of(*one.dataset, one.slab);
    if (entry.due == 0) memory_.due_.push_back(entry.key);
    entry.uses.push_back({told_ + one.sample, this, static_cast<std::uint32_t>(one.row),
                          static_cast<std::uint32_t>(one.count)});
    entry.due += one.count;
    if (entry.whole) memory_.rank_whole(entry);
  }
  told_ += samples;
  memory_.next_due();
  if (told_ < next_sweep_) return;
  next_sweep_ = told_ + open_;
  memory_.sweep();
}

// What is needed next and is not there, or null; forgets those before.
ChunkMemory::Entry* ChunkMemory::next_due() {
  for (; !due_.empty(); due_.pop_front()) {
    const auto found = entries_.find(due_.front());
    if (found == entries_.end()) continue;
    Entry& entry = found->second;
    if (entry.due > 0 && !entry.is_coming && !entry.whole && entry.cuts.empty()) return &entry;
  }
  return nullptr;
}

void ChunkMemory::sweep() {
  for (auto next = entries_.begin(); next != entries_.end();) end_stale((next++)->second);
}

// The entry may be gone then.
void ChunkMemory::end_stale(Entry& entry) {
  for (std::size_t i = entry.next; i < entry.uses.size(); ++i) {
    Use& use = entry.uses[i];
    if (use.count > 0 && use.at < use.plan->told_ - use.plan->open_) end_use(entry, use);
  }
  drop_used(entry);
  if (entry.whole) rank_whole(entry);
  forget_if_empty(entry);
}

// ---- uses ----

// The next use of each of these rows, which come by row, is over: in the plan that has the first of them
// next, whose loader it must be that reads.
void ChunkMemory::use_up(Entry& entry, std::span<const RowPiece> wanted) {
  std::int64_t left = 0;
  for (const RowPiece& piece : wanted) left += piece.count;
  const auto is_in = [](const Use& use, std::span<const RowPiece> pieces) {
    const auto after = std::ranges::upper_bound(pieces, std::int64_t{use.row}, {}, &RowPiece::row);
    return use.count > 0 && after != pieces.begin() && use.row < after[-1].row + after[-1].count;
  };
  const Use* first = nullptr;
  for (std::size_t i = entry.next; plans_.size() > 1 && i < entry.uses.size(); ++i) {
    const Use& use = entry.uses[i];
    if (is_in(use, wanted.first(1)) && (first == nullptr || ahead_of(use) < ahead_of(*first))) first = &use;
  }
  Plan* const reader = first == nullptr ? nullptr : first->plan;
  for (std::size_t i = entry.next; left > 0 && i < entry.uses.size(); ++i) {
    Use& use = entry.uses[i];
    if ((reader != nullptr && use.plan != reader) || !is_in(use, wanted)) continue;
    left -= use.count;
    use.plan->now_ = std::max(use.plan->now_, use.at);
    end_use(entry, use);
  }
  drop_used(entry);
}

// Cuts off those that are over, at both ends.
void ChunkMemory::drop_used(Entry& entry) {
  while (entry.next < entry.uses.size() && entry.uses.back().count == 0) entry.uses.pop_back();
  while (entry.next < entry.uses.size() && entry.uses[entry.next].count == 0) ++entry.next;
  if (entry.next < 64 || entry.next * 2 < entry.uses.size()) return;
  entry.uses.erase(entry.uses.begin(), entry.uses.begin() + static_cast<std::ptrdiff_t>(entry.next));
  entry.next = 0;
}

// Its rows are kept where they are needed again.
void ChunkMemory::end_use(Entry& entry, Use& use) {
  entry.due -= use.count;
  use.count = 0;
  const auto cut = entry.cuts.find(use.row);
  if (cut == entry.cuts.end() || cut->second.use.at != use.at || cut->second.use.plan != use.plan) return;
  const auto again =
      std::find_if(entry.uses.begin() + static_cast<std::ptrdiff_t>(entry.next), entry.uses.end(),
                   [&](const Use& other) { return other.count > 0 && other.row == use.row; });
  if (again == entry.uses.end() || again->count != cut->second.use.count) return drop_cut(entry, use.row);
  items_of(use.plan).erase({use.at, &entry, use.row});
  cut->second.use = *again;
  items_of(again->plan).emplace(again->at, &entry, use.row);
}

// Of each row the next, in order.
std::vector<ChunkMemory::Use> ChunkMemory::first_uses(const Entry& entry) {
  std::vector<Use> uses;
  std::copy_if(entry.uses.begin() + static_cast<std::ptrdiff_t>(entry.next), entry.uses.end(),
               std::back_inserter(uses), [](const Use& use) { return use.count > 0; });
  std::ranges::sort(uses, {}, [](const Use& use) { return std::pair(use.row, ahead_of(use)); });
  const auto is_same = [](const Use& a, const Use& b) { return a.row == b.row; };
  uses.erase(std::unique(uses.begin(), uses.end(), is_same), uses.end());
  std::ranges::sort(uses, {}, ahead_of);
  return uses;
}

// ---- reads ----

std::size_t ChunkMemory::HashSlab::operator()(const Slab& slab) const noexcept {
  constexpr std::size_t kOdd = 0x9E3779B97F4A7C15U;
  return (std::hash<const Hdf5Dataset*>()(slab.dataset) * kOdd ^ static_cast<std::size_t>(slab.slab)) * kOdd;
}

ChunkMemory::Entry& ChunkMemory::entry_of(const Hdf5Dataset& dataset, std::int64_t slab) {
  Entry& entry = entries_[{&dataset, slab}];
  if (entry.rows == 0) {
    entry.key = {&dataset, slab};
    entry.row_bytes = dataset.row_bytes();
    entry.held_bytes = has_bytes_ ? entry.row_bytes : 0;
    entry.rows = std::min(dataset.chunk[0], dataset.rows() - slab * dataset.chunk[0]);
  }
  return entry;
}

void ChunkMemory::forget_if_empty(Entry& entry) {
  if (entry.whole || !entry.cuts.empty() || entry.due > 0 || entry.is_coming) return;
  entries_.erase(Slab(entry.key));
}

ChunkMemory::Answer ChunkMemory::take(const Hdf5Dataset& dataset, std::span<const RowPiece> wanted,
                                      bool waits, Claim& claim) {
  std::vector<Copy> copies;
  {
    const MutexLock lock(mutex_);
    Entry* entry = &entry_of(dataset, wanted[0].slab);
    while (entry->is_coming) {
      if (!waits) return Answer::coming;
      has_come_.wait(mutex_);
      entry = &entry_of(dataset, wanted[0].slab);
    }
    ++reads_;
    const bool is_kept = find(*entry, wanted, copies);
    use_up(*entry, wanted);
    for (const RowPiece& piece : wanted) {
      decoded_.chunks +=
          static_cast<double>(piece.count * dataset.chunks_per_slab) / static_cast<double>(entry->rows);
    }
    if (entry->whole) rank_whole(*entry);
    if (!is_kept) {
      decoded_.decodes += dataset.chunks_per_slab;
      this->claim(*entry, claim);
      return Answer::claimed;
    }
    forget_if_empty(*entry);
  }
  for (const Copy& copy : copies) std::memcpy(copy.to, copy.from, copy.bytes);
  return Answer::copied;
}

std::optional<ChunkMemory::Slab> ChunkMemory::take_next(Claim& claim) {
  const MutexLock lock(mutex_);
  Entry* const entry = next_due();
  if (entry == nullptr || !make_room(kept_bytes(entry->row_bytes, entry->rows), kIdle)) return std::nullopt;
  const Slab slab = entry->key;
  this->claim(*entry, claim);
  if (claim.kept_.empty()) return std::nullopt;
  decoded_.decodes += slab.dataset->chunks_per_slab;
  due_.pop_front();
  return slab;
}

// Whether all of it is kept.
bool ChunkMemory::find(const Entry& entry, std::span<const RowPiece> wanted, std::vector<Copy>& copies) {
  for (const RowPiece& piece : wanted) {
    std::byte* to = piece.to;
    for (std::int64_t row = piece.row; row < piece.row + piece.count;) {
      std::int64_t count = piece.row + piece.count - row;
      if (entry.whole) {
        copies.push_back(
            {entry.whole, &entry.whole[row * static_cast<std::ptrdiff_t>(entry.held_bytes)], to, 0});
      } else {
        const auto cut = entry.cuts.find(static_cast<std::uint32_t>(row));
        if (cut == entry.cuts.end()) return false;
        count = std::min<std::int64_t>(count, cut->second.use.count);
        copies.push_back({cut->second.bytes, cut->second.bytes.get(), to, 0});
      }
      copies.back().bytes = static_cast<std::size_t>(count) * entry.held_bytes;
      to += copies.back().bytes;
      row += count;
    }
  }
  return true;
}

ReadCounts ChunkMemory::decoded() const {
  const MutexLock lock(mutex_);
  return decoded_;
}

// ---- claims ----

void ChunkMemory::Claim::end(bool is_filled) noexcept {
  if (memory_ != nullptr) std::exchange(memory_, nullptr)->end(*this, is_filled);
}

void ChunkMemory::claim(Entry& entry, Claim& claim) {
  entry.is_coming = true;
  try {
    keep(entry, claim);
  } catch (const std::bad_alloc&) {  // nothing is kept, then
    used_ -= std::exchange(claim.bytes_, 0);
    claim.kept_.clear();
  }
  if (claim.kept_.empty()) {  // so others need not wait
    entry.is_coming = false;
    return forget_if_empty(entry);
  }
  claim.memory_ = this;
  claim.entry_ = &entry;
}

std::shared_ptr<std::byte[]> ChunkMemory::take_slab(std::size_t bytes) {
  std::unique_ptr<std::byte[]> slab;
  {
    const MutexLock lock(spare_.mutex);
    if (spare_.bytes == bytes) slab = std::move(spare_.data);
  }
  if (!slab) slab = std::make_unique_for_overwrite<std::byte[]>(bytes);
  return {slab.release(), [this, bytes](std::byte* data) {
            std::unique_ptr<std::byte[]> other(data);
            const MutexLock lock(spare_.mutex);
            std::swap(spare_.data, other);
            spare_.bytes = bytes;
          }};
}

void ChunkMemory::keep(Entry& entry, Claim& claim) {
  const auto add = [&](std::size_t counted, std::int64_t row, std::int64_t count) {
    const auto bytes = static_cast<std::size_t>(count) * entry.held_bytes;
    auto& owner = claim.owners_.emplace_back(
        count == entry.rows ? take_slab(bytes) : std::make_shared_for_overwrite<std::byte[]>(bytes));
    claim.kept_.push_back({entry.key.slab, row, count, owner.get()});
    claim.bytes_ += counted;
    return counted;
  };
  const std::size_t bytes = kept_bytes(entry.row_bytes, entry.rows);
  const bool is_dense = entry.due * 4 >= entry.rows * 3;
  const bool is_read_again = entry.rows > 1 || entry.due > 0;
  if (is_read_again && make_room(bytes, is_dense ? ahead_of(entry.uses.back()) : kIdle)) {
    used_ += add(bytes, 0, entry.rows);
    claim.is_whole_ = true;
    return;
  }
  for (const Use& use : first_uses(entry)) {
    if (entry.cuts.contains(use.row)) continue;
    const std::size_t cut = kept_bytes(entry.row_bytes, use.count);
    if (!make_room(cut, ahead_of(use))) break;
    used_ += add(cut, use.row, use.count);
  }
}

void ChunkMemory::end(Claim& claim, bool is_filled) noexcept {
  const MutexLock lock(mutex_);
  Entry& entry = *claim.entry_;
  entry.is_coming = false;
  has_come_.notify_all();
  used_ -= claim.bytes_;
  try {
    if (is_filled) keep_filled(entry, claim);
  } catch (const std::bad_alloc&) {  // what is not noted is not kept
  }
  forget_if_empty(entry);
}

void ChunkMemory::keep_filled(Entry& entry, Claim& claim) {
  if (claim.is_whole_) {
    while (!entry.cuts.empty()) drop_cut(entry, entry.cuts.begin()->first);
    rank_whole(entry);
    entry.whole = std::move(claim.owners_[0]);
    used_ += claim.bytes_;
    return;
  }
  std::size_t i = 0;
  for (const Use& use : first_uses(entry)) {  // those that others have told or taken meanwhile are passed
    if (entry.cuts.contains(use.row)) continue;
    while (i < claim.kept_.size() && claim.kept_[i].row != use.row) ++i;
    if (i == claim.kept_.size()) break;
    add_cut(entry, use, std::move(claim.owners_[i]));
  }
}

ChunkMemory::Number ChunkMemory::ahead_of(const Use& use) noexcept { return use.at - use.plan->now_; }

ChunkMemory::Items& ChunkMemory::items_of(Plan* plan) { return plan == nullptr ? idle_ : plan->items_; }

// Of what is needed later than in `ahead` samples.
bool ChunkMemory::make_room(std::size_t bytes, Number ahead) {
  if (bytes > limit_) return false;
  while (used_ > limit_ - bytes) {
    Plan* farthest = nullptr;
    Number most = idle_.empty() ? ahead : kIdle + kSparse;
    for (Plan* const plan : plans_) {
      if (plan->items_.empty()) continue;
      const Number own = std::get<0>(*plan->items_.rbegin()) - plan->now_;
      if (own > most) farthest = plan;
      most = std::max(most, own);
    }
    if (most <= ahead) return false;
    evict_last(items_of(farthest));
  }
  return true;
}

// Of a whole slab, what is needed is cut out.
void ChunkMemory::evict_last(Items& items) {
  const Item item = *items.rbegin();
  Entry& entry = *std::get<1>(item);
  if (std::get<2>(item) != kWhole) {
    drop_cut(entry, std::get<2>(item));
  } else {
    items.erase(item);
    entry.plan = nullptr;
    const auto whole = std::exchange(entry.whole, nullptr);
    used_ -= kept_bytes(entry.row_bytes, entry.rows);
    for (const Use& use : first_uses(entry)) {
      if (used_ + kept_bytes(entry.row_bytes, use.count) > limit_) break;  // others are needed later
      const std::size_t bytes = use.count * entry.held_bytes;
      auto cut = std::make_shared_for_overwrite<std::byte[]>(bytes);
      std::memcpy(cut.get(), &whole[static_cast<std::ptrdiff_t>(use.row * entry.held_bytes)], bytes);
      add_cut(entry, use, std::move(cut));
    }
  }
  forget_if_empty(entry);
}

void ChunkMemory::rank_whole(Entry& entry) {
  auto node = items_of(entry.plan).extract({entry.rank, &entry, kWhole});
  if (entry.due == 0) {
    entry.plan = nullptr;
    entry.rank = kIdle - reads_;
  } else {
    entry.plan = entry.uses.back().plan;
    entry.rank = entry.uses.back().at + (entry.due * 4 < entry.rows * 3 ? kSparse : 0);
  }
  const Item item(entry.rank, &entry, kWhole);
  if (node.empty()) {
    items_of(entry.plan).insert(item);
  } else {
    node.value() = item;
    items_of(entry.plan).insert(std::move(node));
  }
}

void ChunkMemory::add_cut(Entry& entry, const Use& use, std::shared_ptr<std::byte[]> bytes) {
  if (!entry.cuts.try_emplace(use.row, Cut{use, std::move(bytes)}).second) return;
  items_of(use.plan).emplace(use.at, &entry, use.row);
  used_ += kept_bytes(entry.row_bytes, use.count);
}

void ChunkMemory::drop_cut(Entry& entry, std::uint32_t row) {
  const auto cut = entry.cuts.find(row);
  items_of(cut->second.use.plan).erase({cut->second.use.at, &entry, row});
  used_ -= kept_bytes(entry.row_bytes, cut->second.use.count);
  entry.cuts.erase(cut);
}

}  // namespace rota::internal
