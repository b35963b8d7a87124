#pragma once

// Documents one behind the other, and which of them hold a stretch of their tokens.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "order/permutation.hpp"
#include "ranks/node_buffer.hpp"
#include "ranks/nodes.hpp"
#include "rota/packing.hpp"
#include "rota/source.hpp"
#include "source/lengths.hpp"

namespace rota::internal {

/// Tokens [first, first + count) of a document, those added included, and whether they are its last.
struct DocumentPiece {
  SampleId document = {};
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool is_last = false;
};

/// Tokens of each document beside its own.
constexpr std::int64_t added_tokens(const PackOptions& options) noexcept {
  return (options.bos ? 1 : 0) + (options.eos ? 1 : 0);
}

/// The sum; both are 0 to 2^62. Throws Error{out_of_range} beyond 2^62.
std::int64_t add_tokens(std::int64_t tokens, std::int64_t more);
std::int64_t add_tokens(std::span<const std::int64_t> tokens);

/// All documents of a source in a keyed order, one behind the other. 8 bytes a document, once on each node.
/// *Immutable*, any thread.
class DocumentStream {
 public:
  /// Of documents of these lengths. **Collective** over `nodes`. Throws on all ranks what it throws on one:
  /// Error{out_of_range} for more than 2^62 tokens, Error{io} without memory.
  DocumentStream(const Lengths& lengths, const PackOptions& options, const ranks::Nodes& nodes);

  [[nodiscard]] std::int64_t tokens() const noexcept { return ends_.empty() ? 0 : ends_.back(); }
  /// Documents with tokens, those of them that are cut every `length` tokens, and tokens. Looks at all.
  [[nodiscard]] PackFacts counts(std::int64_t length) const noexcept;
  /// What it keeps for its documents, in memory that the ranks of the node have in common.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return shared_.bytes; }

  /// Calls visit(piece) for the documents that hold tokens [first, last), in order; 0 <= first <= last <=
  /// tokens().
  template <typename Visit>
  void visit(std::int64_t first, std::int64_t last, Visit visit) const {
    if (first == last) return;
    for (std::size_t place = place_of(first); first < last; ++place) {
      const std::int64_t begin = place == 0 ? 0 : ends_[place - 1];
      const std::int64_t end = ends_[place];
      const std::int64_t count = std::min(end, last) - first;
      if (count == 0) continue;
      visit(DocumentPiece{document(static_cast<std::int64_t>(place)), first - begin, count, end <= last});
      first += count;
    }
  }

  /// Has memory look up where `token` is while others are asked for; 0 <= token < tokens().
  void prefetch(std::int64_t token) const noexcept { __builtin_prefetch(&ends_[guess(token)]); }

 private:
  [[nodiscard]] SampleId document(std::int64_t place) const noexcept {
    return {order_ ? (*order_)(place) : place};
  }
  // A place close to that of `token`.
  [[nodiscard]] std::size_t guess(std::int64_t token) const noexcept;
  // Of the document that holds `token`.
  [[nodiscard]] std::size_t place_of(std::int64_t token) const noexcept;

  std::optional<Permutation> order_;
  NodeBuffer shared_;
  std::span<const std::int64_t> ends_;  // in there: the first token behind the document at each place
};

}  // namespace rota::internal
