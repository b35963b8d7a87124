#pragma once

// Whose bytes these are.

#include <cstdint>
#include <string>
#include <vector>

#include "contents.hpp"

namespace rota::checkpoint {

/// The tensors and blobs of a checkpoint in the order of their bytes. Refers to `contents`. *Immutable.*
class Owners {
 public:
  explicit Owners(const Contents& contents);

  /// What bytes [begin, end) of the file hold, for people: `rows 3 to 9 of tensor "w", blob "state"`.
  [[nodiscard]] std::string describe(std::uint64_t begin, std::uint64_t end) const;

 private:
  struct Owner {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::size_t index = 0;  // of a tensor, or, from the number of tensors on, of a blob
  };
  [[nodiscard]] std::string describe(const Owner& owner, std::uint64_t begin, std::uint64_t end) const;

  const Contents* contents_;
  std::vector<Owner> owners_;
};

/// `blob "rng" of rank 3`, or, where it is the job's, `blob "rng"`.
[[nodiscard]] std::string describe(const BlobEntry& blob);

}  // namespace rota::checkpoint
