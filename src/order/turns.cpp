#include "order/turns.hpp"

#include <algorithm>

namespace rota::internal {

namespace {

std::size_t low_bit(std::size_t i) noexcept { return i & (~i + 1); }

// The place of the k-th set bit of `word`, which has more than k: by the counts of its bytes, all taken at
// once.
int select_bit(std::uint64_t word, int k) noexcept {
  std::uint64_t counts = word - ((word >> 1) & 0x5555555555555555U);
  counts = (counts & 0x3333333333333333U) + ((counts >> 2) & 0x3333333333333333U);
  counts = (counts + (counts >> 4)) & 0x0F0F0F0F0F0F0F0FU;
  int place = 0;
  for (; k >= static_cast<int>(counts & 0xFF); counts >>= 8, place += 8) k -= static_cast<int>(counts & 0xFF);
  std::uint64_t bits = word >> place;
  for (; k > 0; --k) bits &= bits - 1;
  return place + std::countr_zero(bits);
}

PositionRange skip(PositionRange take, std::int64_t positions) noexcept {
  take.begin += positions;
  return take;
}

}  // namespace

void AliveSet::build() {
  count_ = 0;
  tree_.assign(words_.size() + 1, 0);
  for (std::size_t i = 1; i < tree_.size(); ++i) {
    const int members = std::popcount(words_[i - 1]);
    count_ += members;
    tree_[i] += members;
    if (const std::size_t parent = i + low_bit(i); parent < tree_.size()) tree_[parent] += tree_[i];
  }
}

void AliveSet::remove(std::int64_t member) noexcept {
  const auto word = static_cast<std::size_t>(member >> 6);
  words_[word] &= ~(std::uint64_t{1} << (member & 63));
  for (std::size_t i = word + 1; i < tree_.size(); i += low_bit(i)) --tree_[i];
  --count_;
}

std::int64_t AliveSet::rank(std::int64_t value) const noexcept {
  const auto word = static_cast<std::size_t>(value >> 6);
  std::int64_t below = 0;
  for (std::size_t i = word; i > 0; i -= low_bit(i)) below += tree_[i];
  if ((value & 63) != 0) below += std::popcount(words_[word] & ((std::uint64_t{1} << (value & 63)) - 1));
  return below;
}

std::int64_t AliveSet::select(std::int64_t rank) const noexcept {
  if (rank >= count_) return size_;
  std::size_t word = 0;
  for (std::size_t step = std::bit_floor(tree_.size() - 1); step > 0; step /= 2) {
    if (word + step < tree_.size() && tree_[word + step] <= rank) {
      word += step;
      rank -= tree_[word];
    }
  }
  return static_cast<std::int64_t>(word) * 64 + select_bit(words_[word], static_cast<int>(rank));
}

std::int64_t AliveSet::next_after_word(std::size_t word) const noexcept {
  constexpr std::size_t kLook = 4;  // words looked at one by one before the tree is asked
  for (const std::size_t end = std::min(words_.size(), word + 1 + kLook); ++word < end;) {
    if (words_[word] != 0) return static_cast<std::int64_t>(word) * 64 + std::countr_zero(words_[word]);
  }
  return word >= words_.size() ? size_ : select(rank(static_cast<std::int64_t>(word) * 64));
}

// ---- equal lengths: n or n + 1 samples a shard ----

void EqualTurns::load(std::int64_t group, std::int64_t begin, std::int64_t end) {
  first_ = plan_.group_first(group);
  last_ = plan_.group_last(group);
  begin_ = locate(begin);
  end_ = locate(end);
}

Frontier EqualTurns::locate(std::int64_t turns) const noexcept {
  const std::int64_t shards = last_ - first_;
  const std::int64_t n = plan_.short_length();
  if (turns / shards < n) return {turns / shards, first_ + turns % shards};
  // Round n, the last one, has only the longer shards.
  const std::int64_t kth = plan_.long_before(first_) + (turns - n * shards);
  return {n, std::min(last_, plan_.long_shard(kth))};
}

std::int64_t EqualTurns::taken_before(const Frontier& frontier, std::int64_t shard) const noexcept {
  const std::int64_t rounds = frontier.round * (shard - first_);
  const std::int64_t end = std::min(shard, frontier.shard);
  if (frontier.round < plan_.short_length()) return rounds + (end - first_);
  return rounds + plan_.long_before(end) - plan_.long_before(first_);
}

// As Frontier::cursor, but the length, which costs divisions, is looked at only where it matters.
std::int64_t EqualTurns::cursor(const Frontier& frontier, std::int64_t shard) const noexcept {
  if (shard >= frontier.shard) return frontier.round;
  if (frontier.round < plan_.short_length()) return frontier.round + 1;
  return plan_.length(shard);
}

PositionRange EqualTurns::find(std::int64_t slot) const noexcept {
  std::int64_t low = first_;
  std::int64_t high = last_ - 1;
  while (low < high) {  // the last shard with at most `slot` slots before it
    const std::int64_t middle = low + (high - low + 1) / 2;
    if (taken_before(end_, middle) - taken_before(begin_, middle) <= slot) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const std::int64_t skip = slot - (taken_before(end_, low) - taken_before(begin_, low));
  return {low, cursor(begin_, low) + skip, cursor(end_, low)};
}

PositionRange EqualTurns::next(std::int64_t shard) const noexcept {
  const std::int64_t s = next_shard(shard);
  return {s, cursor(begin_, s), cursor(end_, s)};
}

std::int64_t EqualTurns::next_shard(std::int64_t shard) const noexcept {
  const std::int64_t n = plan_.short_length();
  const std::int64_t s = shard + 1;
  if (begin_.round == n) return plan_.long_shard(plan_.long_before(std::max(s, begin_.shard)));
  if (s >= begin_.shard || end_.round > begin_.round + 1) return s;
  // Shards below begin_.shard have had round begin_.round; the next round may be under way.
  if (end_.round == begin_.round + 1 && s < end_.shard) {
    const std::int64_t in_next = end_.round < n ? s : plan_.long_shard(plan_.long_before(s));
    if (in_next < end_.shard) return std::min(in_next, begin_.shard);
  }
  return begin_.shard;
}

// ---- any lengths ----

void RaggedTurns::advance(Rounds& rounds, std::int64_t turns) const noexcept {
  const auto by_length = plan_.by_length(group_);
  while (rounds.dead < size_) {
    const std::int64_t alive = size_ - rounds.dead;
    const std::int64_t shortest = length(by_length[static_cast<std::size_t>(rounds.dead)]);
    if (turns < rounds.dead_samples + shortest * alive) {
      rounds.round = (turns - rounds.dead_samples) / alive;
      rounds.turn = (turns - rounds.dead_samples) % alive;
      return;
    }
    ++rounds.dead;
    rounds.dead_samples += shortest;
    rounds.round = shortest;
  }
  rounds.turn = 0;
}

void RaggedTurns::enter(std::int64_t group, std::int64_t turns) {
  if (group == group_ && turns >= begin_turns_) {
    const auto by_length = plan_.by_length(group_);
    const std::int64_t dead = now_.dead;
    advance(now_, turns);
    for (std::int64_t k = dead; k < now_.dead; ++k) alive_.remove(by_length[static_cast<std::size_t>(k)]);
  } else {
    group_ = group;
    first_ = plan_.group_first(group);
    size_ = plan_.group_last(group) - first_;
    now_ = {};
    advance(now_, turns);
    try {
      alive_.assign(size_, [this](std::int64_t offset) { return length(offset) > now_.round; });
    } catch (...) {
      group_ = -1;  // begun anew by the next call
      throw;
    }
  }
  begin_turns_ = turns;
}

void RaggedTurns::load(std::int64_t group, std::int64_t begin, std::int64_t end) {
  const bool goes_on = group == group_ && begin == end_turns_;
  enter(group, begin);
  Rounds later = now_;
  advance(later, end);
  const auto by_length = plan_.by_length(group_);
  ending_.assign(by_length.begin() + now_.dead, by_length.begin() + later.dead);
  std::sort(ending_.begin(), ending_.end());
  begin_ = goes_on ? end_ : Frontier{now_.round, first_ + alive_.select(now_.turn)};
  end_ = {later.round, first_ + select_at_end(later.turn)};
  end_turns_ = end;
}

// The shard with `rank` others below it among those still alive at the end of the range.
std::int64_t RaggedTurns::select_at_end(std::int64_t rank) const noexcept {
  std::int64_t below = 0;  // ending shards below the one sought, which count in `alive_` only: by bisection
  for (auto high = static_cast<std::int64_t>(ending_.size()); below < high;) {
    const std::int64_t middle = below + (high - below) / 2;
    if (alive_.rank(ending_[static_cast<std::size_t>(middle)]) - middle <= rank) {
      below = middle + 1;
    } else {
      high = middle;
    }
  }
  return alive_.select(rank + below);
}

PositionRange RaggedTurns::take(std::int64_t offset) const noexcept {
  const std::int64_t s = first_ + offset;
  const std::int64_t n = length(offset);
  return {s, begin_.cursor(s, n), end_.cursor(s, n)};
}

PositionRange RaggedTurns::find(std::int64_t slot) const noexcept {
  // Between two breakpoints (a shard that ends, or a frontier's shard) the range takes equally much of
  // every shard.
  const std::int64_t edges[] = {std::min(begin_.shard, end_.shard) - first_,
                                std::max(begin_.shard, end_.shard) - first_, size_};
  std::int64_t from = 0;
  std::int64_t from_rank = 0;
  for (std::size_t edge = 0, ending = 0;;) {
    while (edge < 2 && edges[edge] <= from) ++edge;
    const bool is_ending = ending < ending_.size() && ending_[ending] < edges[edge];
    const std::int64_t to = is_ending ? ending_[ending] : edges[edge];
    const std::int64_t to_rank = alive_.rank(to);
    if (to_rank > from_rank) {
      const PositionRange first = take(alive_.next(from));
      const std::int64_t each = first.end - first.begin;
      if (slot < each * (to_rank - from_rank))
        return skip(take(alive_.select(from_rank + slot / each)), slot % each);
      slot -= each * (to_rank - from_rank);
    }
    from = to;
    from_rank = to_rank;
    if (!is_ending) continue;
    const PositionRange last = take(to);
    if (slot < last.end - last.begin) return skip(last, slot);
    slot -= last.end - last.begin;
    ++ending;
    ++from;
    ++from_rank;
  }
}

PositionRange RaggedTurns::next(std::int64_t shard) const noexcept {
  const std::int64_t begin_shard = begin_.shard - first_;
  for (std::int64_t s = alive_.next(shard - first_ + 1);;) {
    const PositionRange taken = take(s);
    if (taken.end > taken.begin) return taken;
    // Below begin_.shard, a shard that had its turn in this round may have none in what is left of the
    // range.
    const bool in_gap = s < begin_shard && (end_.round == begin_.round ||
                                            (end_.round == begin_.round + 1 && first_ + s >= end_.shard));
    s = alive_.next(in_gap ? begin_shard : s + 1);
  }
}

void append_spans(const Turns& turns, const ShardSpan& like, std::int64_t slot, std::int64_t count,
                  std::vector<ShardSpan>& out) {
  const auto append = [&](const auto& range) {
    for (PositionRange take = range.find(slot);; take = range.next(take.shard)) {
      const std::int64_t taken = std::min(count, take.end - take.begin);
      ShardSpan& span = out.emplace_back();  // filled in place: a copy would wait for the stores
      span.epoch = like.epoch;
      span.shard.value = take.shard;
      span.position = take.begin;
      span.count = taken;
      span.kind = like.kind;
      span.dataset = like.dataset;
      count -= taken;
      if (count == 0) return;
    }
  };
  std::visit(append, turns);
}

}  // namespace rota::internal
