#include "source/best_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/failure.hpp"
#include "core/scarce.hpp"
#include "ranks/collectives.hpp"
#include "ranks/node_buffer.hpp"
#include "rota/types.hpp"

namespace rota::internal {
namespace {

constexpr std::int64_t kShowProgressAfter = 1 << 20;  // documents

/// Sequences of the same lengths, and where these are taken from.
struct Pile {
  std::int64_t sequences = 0;
  std::vector<BestFit::Step> steps;

  /// Its first `count` sequences, which are no longer part of it.
  Pile take(std::int64_t count) {
    Pile first{.sequences = count, .steps = steps};
    sequences -= count;
    for (BestFit::Step& step : steps) step.first += count * step.count;
    return first;
  }
};

/// Lays lengths into sequences, the longest first. Sequences with as much room are alike. So all that have
/// the least room for a length get as many of it as find room, before any other does.
class PilesByRoom {
 public:
  explicit PilesByRoom(std::int64_t length) : length_(length) {}

  void lay(std::size_t length_class, const BestFit::LengthClass& of) {
    for (std::int64_t laid = 0; laid < of.count;) {
      const std::int64_t left = of.count - laid;
      auto found = piles_.lower_bound(of.length);
      if (found == piles_.end()) {
        const std::int64_t fit = length_ / of.length;
        found = piles_.try_emplace(length_).first;
        found->second.push_back({.sequences = left / fit + (left % fit == 0 ? 0 : 1), .steps = {}});
      }
      const std::int64_t each = std::min(found->first / of.length, left);
      const std::int64_t room = found->first - each * of.length;
      Pile pile = take(found, left / each);
      pile.steps.push_back({.length_class = length_class, .count = each, .first = laid});
      laid += each * pile.sequences;
      piles_[room].push_back(std::move(pile));
    }
  }

  [[nodiscard]] const std::map<std::int64_t, std::vector<Pile>>& piles() const noexcept { return piles_; }

 private:
  using ByRoom = std::map<std::int64_t, std::vector<Pile>>;

  // A pile of at most so many sequences.
  Pile take(ByRoom::iterator from, std::int64_t most) {
    std::vector<Pile>& piles = from->second;
    if (piles.back().sequences > most) return piles.back().take(most);
    Pile pile = std::move(piles.back());
    piles.pop_back();
    if (piles.empty()) piles_.erase(from);
    return pile;
  }

  std::int64_t length_;
  ByRoom piles_;
};

/// A document's tokens, and those of them that fill no sequence.
struct Cut {
  std::int64_t wholes = 0;  ///< sequences that it fills
  std::int64_t rest = 0;

  Cut(std::int64_t tokens, std::int64_t length) noexcept : rest(tokens) {
    if (tokens < length) return;
    wholes = tokens / length;
    rest = tokens % length;
  }
};

}  // namespace

BestFit::BestFit(const Lengths& lengths, PackOptions options, const ranks::Nodes& nodes)
    : options_(std::move(options)), documents_(lengths.size()) {
  count(lengths, nodes);
  nodes.all().together("lay documents into sequences", [&] { lay(); });
  sort(lengths, nodes);
}

// How many documents, and parts of them, have which length.
void BestFit::count(const Lengths& lengths, const ranks::Nodes& nodes) {
  const Communicator& all = nodes.all();
  const std::int64_t most = std::min(options_.length, lengths.most() + added_tokens(options_));
  std::vector<std::int64_t> counts;
  all.together("count the lengths of documents", [&] {
    with_memory([&] { counts.resize(static_cast<std::size_t>(most) + 1); },
                [&] { return fmt::format("pack documents: count lengths up to {}", most); });
    const std::int64_t end = share(documents_, all.rank() + 1, all.size());
    for (std::int64_t id = share(documents_, all.rank(), all.size()); id < end; ++id) {
      const std::int64_t tokens = lengths[{id}] + added_tokens(options_);
      if (tokens > options_.length && !options_.cut_longer) {
        throw failure(ErrorCode::invalid_argument,
                      "pack documents: document {} takes {} tokens, and a sequence has {}; make length "
                      "greater, or have longer documents cut (the option cut_longer)",
                      id, tokens, options_.length);
      }
      counts_.tokens = add_tokens(counts_.tokens, tokens);
      counts_.documents += tokens > 0 ? 1 : 0;
      counts_.cut += tokens > options_.length ? 1 : 0;
      const Cut cut(tokens, options_.length);
      ++counts[static_cast<std::size_t>(cut.rest)];
      if (cut.wholes == 0) continue;
      counts[static_cast<std::size_t>(most)] += cut.wholes;
      ++longs_;
    }
  });
  counts_.tokens = add_tokens(ranks::all_gather(all, counts_.tokens));
  for (std::int64_t* const of_all : {&counts_.documents, &counts_.cut, &longs_})
    all.sum(std::span(of_all, 1));
  all.sum(std::span(counts));
  for (std::int64_t length = 1, first = 0; length <= most; ++length) {
    const std::int64_t count = counts[static_cast<std::size_t>(length)];
    if (count > 0) classes_.push_back({.length = length, .count = count, .first = first});
    first += count;
  }
}

void BestFit::lay() {
  PilesByRoom rooms(options_.length);
  for (std::size_t c = classes_.size(); c-- > 0;) rooms.lay(c, classes_[c]);
  std::int64_t sequences = 0;
  for (const auto& [room, piles] : rooms.piles()) {
    for (const Pile& pile : piles) {
      groups_.push_back({.first = sequences, .first_step = steps_.size()});
      steps_.insert(steps_.end(), pile.steps.begin(), pile.steps.end());
      sequences += pile.sequences;
    }
  }
  groups_.push_back({.first = sequences, .first_step = steps_.size()});
  const std::uint64_t seed = options_.shuffle_documents ? options_.seed : 0;
  order_ = Permutation(sequences, derive_key(seed, 0, Purpose::packing, 0));
}

// Which documents have which length, in the order of their source.
void BestFit::sort(const Lengths& lengths, const ranks::Nodes& nodes) {
  const LengthClass longest = classes_.empty() ? LengthClass() : classes_.back();
  const std::int64_t most = std::max(2 * documents_, longs_ > 0 ? longest.count : 0);
  const std::size_t width = NarrowNumbers::width(most);
  const std::size_t sorted =
      static_cast<std::size_t>(longest.first + (longs_ > 0 ? 0 : longest.count)) * width;
  const std::size_t longs = static_cast<std::size_t>(longs_) * width;
  const NodeMemory made = make_node_memory(nodes, sorted + 2 * longs + 1);
  memory_ = made.memory;
  bytes_ = {memory_.get(), sorted + 2 * longs};
  sorted_ = NarrowNumbers(bytes_.first(sorted), most);
  long_ids_ = NarrowNumbers(bytes_.subspan(sorted, longs), most);
  ends_ = NarrowNumbers(bytes_.last(longs), most);
  nodes.all().together("sort documents by length", [&] {
    if (!made.is_first) return;
    std::vector<std::int64_t> next;
    with_memory([&] { next.resize(static_cast<std::size_t>(longest.length) + 1); },
                [&] { return fmt::format("pack documents: sort lengths up to {}", longest.length); });
    for (const LengthClass& of : classes_) next[static_cast<std::size_t>(of.length)] = of.first;
    std::byte* const ids = made.memory.get() + sorted;
    for (std::int64_t id = 0, k = 0, wholes = 0; id < documents_; ++id) {
      if (id % kShowProgressAfter == 0) nodes.show_progress();
      const Cut cut(lengths[{id}] + added_tokens(options_), options_.length);
      std::int64_t& place = next[static_cast<std::size_t>(cut.rest)];
      if (cut.rest > 0) {
        NarrowNumbers::put(made.memory.get(), width, place++, cut.wholes > 0 ? documents_ + k : id);
      }
      if (cut.wholes == 0) continue;
      NarrowNumbers::put(ids, width, k, 2 * id + (cut.rest > 0 ? 1 : 0));
      NarrowNumbers::put(ids + longs, width, k++, wholes += cut.wholes);
    }
  });
}

std::size_t BestFit::group_of(std::int64_t place) const noexcept {
  const auto behind = std::ranges::upper_bound(groups_, place, {}, &Group::first);
  return static_cast<std::size_t>(behind - groups_.begin()) - 1;
}

std::optional<Permutation> BestFit::order_of(const LengthClass& of, std::int64_t epoch) const noexcept {
  if (!options_.shuffle_documents || of.count == 1) return std::nullopt;
  return Permutation(of.count, derive_key(options_.seed, epoch, Purpose::packing, of.length));
}

DocumentPiece BestFit::piece(const LengthClass& of, std::int64_t k) const noexcept {
  if (of.length == options_.length) return whole_piece(k);
  const std::int64_t number = sorted_[of.first + k];
  if (number < documents_) return {.document = {number}, .first = 0, .count = of.length, .is_last = true};
  const std::int64_t at = number - documents_;
  return {.document = {long_ids_[at] / 2},
          .first = (ends_[at] - wholes_before(at)) * options_.length,
          .count = of.length,
          .is_last = true};
}

// Number `k` of the sequences that one document fills.
DocumentPiece BestFit::whole_piece(std::int64_t k) const noexcept {
  std::int64_t at = 0;
  for (std::int64_t end = longs_; at < end;) {
    const std::int64_t middle = at + (end - at) / 2;
    ends_[middle] > k ? end = middle : at = middle + 1;
  }
  return {.document = {long_ids_[at] / 2},
          .first = (k - wholes_before(at)) * options_.length,
          .count = options_.length,
          .is_last = long_ids_[at] % 2 == 0 && k + 1 == ends_[at]};
}

}  // namespace rota::internal
