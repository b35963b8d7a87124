#pragma once

// Documents laid whole into sequences, and which of them stand in one.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "order/permutation.hpp"
#include "source/document_stream.hpp"

namespace rota::internal {

/// A view of numbers from 0 on, of 4 bytes each, or of 8 where one is 2^31 or more.
class NarrowNumbers {
 public:
  NarrowNumbers() = default;
  /// Of what `put` has written. `most`: no number is larger.
  NarrowNumbers(std::span<const std::byte> bytes, std::int64_t most) noexcept
      : bytes_(bytes.data()), is_wide_(width(most) == 8) {}

  /// Bytes of a number.
  [[nodiscard]] static constexpr std::size_t width(std::int64_t most) noexcept {
    return most >> 31 == 0 ? 4 : 8;
  }
  /// Writes number i to memory of `width` bytes for each.
  static void put(std::byte* bytes, std::size_t width, std::int64_t i, std::int64_t number) noexcept {
    // Its low bytes are first; a copy of a known size is one instruction.
    if (width == 4) {
      std::memcpy(bytes + i * 4, &number, 4);
    } else {
      std::memcpy(bytes + i * 8, &number, 8);
    }
  }

  [[nodiscard]] std::int64_t operator[](std::int64_t i) const noexcept {
    return is_wide_ ? get<std::int64_t>(i) : get<std::int32_t>(i);
  }

 private:
  template <typename T>
  [[nodiscard]] T get(std::int64_t i) const noexcept {
    T number;
    std::memcpy(&number, bytes_ + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
    return number;
  }

  const std::byte* bytes_ = nullptr;
  bool is_wide_ = false;
};

/// All documents of a source, the longest first, each in the sequence where it leaves the least room: best
/// fit decreasing (D. S. Johnson, "Near-optimal bin packing algorithms", 1973). What is longer than a
/// sequence is cut into whole ones and a rest, which is laid like a document. Documents of one length change
/// places with each other by epoch.
///
/// Which lengths stand together depends only on how many documents have which length. So it is computed with
/// counts: sequences of the same lengths are a group, and each length makes few groups. Beside these it keeps
/// 4 bytes for each document, and 8 more for one that fills sequences; twice that from 2^30 documents on.
/// *Immutable*, any thread.
class BestFit {
 public:
  /// All documents, or parts of them, of one length, numbered from 0.
  struct LengthClass {
    std::int64_t length = 0;
    std::int64_t count = 0;
    std::int64_t first = 0;  ///< among those of all classes
  };
  /// Numbers [first, first + count) of a class, in the first sequence of a group; as many more in the next.
  struct Step {
    std::size_t length_class = 0;
    std::int64_t count = 0;
    std::int64_t first = 0;
  };

  /// Of documents of these lengths. **Collective** over `nodes`. Throws on all ranks what it throws on one:
  /// Error{invalid_argument} for a document that may not be cut, Error{out_of_range} for more than 2^62
  /// tokens, Error{io} without memory.
  BestFit(const Lengths& lengths, PackOptions options, const ranks::Nodes& nodes);

  [[nodiscard]] std::int64_t sequences() const noexcept { return order_.size(); }
  /// Documents with tokens, those of them that are cut, and tokens.
  [[nodiscard]] const PackFacts& counts() const noexcept { return counts_; }
  /// What it keeps for its documents, in memory that the ranks of the node have in common.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

  /// Calls visit(piece) for the documents of a sequence in an epoch, the longest first; 0 <= sequence <
  /// sequences().
  template <typename Visit>
  void visit(std::int64_t sequence, std::int64_t epoch, Visit visit) const {
    const std::int64_t place = order_(sequence);
    const std::size_t g = group_of(place);
    for (std::size_t s = groups_[g].first_step; s < groups_[g + 1].first_step; ++s) {
      const Step& step = steps_[s];
      const LengthClass& of = classes_[step.length_class];
      const auto order = order_of(of, epoch);
      const std::int64_t first = step.first + (place - groups_[g].first) * step.count;
      for (std::int64_t k = first; k < first + step.count; ++k) visit(piece(of, order ? (*order)(k) : k));
    }
  }

 private:
  /// Sequences of the same lengths, up to those of the next group.
  struct Group {
    std::int64_t first = 0;
    std::size_t first_step = 0;
  };

  void count(const Lengths& lengths, const ranks::Nodes& nodes);
  void lay();
  void sort(const Lengths& lengths, const ranks::Nodes& nodes);
  [[nodiscard]] std::size_t group_of(std::int64_t place) const noexcept;
  [[nodiscard]] std::optional<Permutation> order_of(const LengthClass& of, std::int64_t epoch) const noexcept;
  [[nodiscard]] DocumentPiece piece(const LengthClass& of, std::int64_t k) const noexcept;
  [[nodiscard]] DocumentPiece whole_piece(std::int64_t k) const noexcept;
  // Whole sequences of long documents before number `k` of these.
  [[nodiscard]] std::int64_t wholes_before(std::int64_t k) const noexcept {
    return k == 0 ? 0 : ends_[k - 1];
  }

  PackOptions options_;
  std::int64_t documents_;
  PackFacts counts_;
  std::vector<LengthClass> classes_;  // the shortest first
  std::vector<Group> groups_;         // and one behind them
  std::vector<Step> steps_;
  Permutation order_{0, {}};  // of sequences, lest the first have the longest documents
  std::int64_t longs_ = 0;    // documents that fill a sequence, or several
  std::shared_ptr<const std::byte> memory_;
  std::span<const std::byte> bytes_;  // in there: the next three
  NarrowNumbers sorted_;              // documents by class; `documents_` + k: the rest of long document k
  NarrowNumbers long_ids_;            // twice the id of each long document, and 1 more where it has a rest
  NarrowNumbers ends_;                // whole sequences up to the end of each
};

}  // namespace rota::internal
