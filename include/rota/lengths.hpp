#pragma once

// How long the samples of a dataset are. Next: balance.hpp.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "rota/fingerprint.hpp"
#include "rota/types.hpp"

namespace rota {

class Communicator;
class Source;

/// How long each sample of a dataset is: a number, 0 or more. 4 bytes a sample, or 8 where one is 2^31 or
/// longer, and of a file of int64. Copies share them. *Immutable.*
class Lengths {
 public:
  /// None.
  Lengths() = default;
  /// A copy. Throws Error{invalid_argument} for a length below 0, naming its sample.
  explicit Lengths(std::span<const std::int64_t> lengths);
  explicit Lengths(std::span<const std::int32_t> lengths);
  /// Of memory that `keep` keeps, without a copy; it must not change.
  Lengths(std::shared_ptr<const void> keep, std::span<const std::int64_t> lengths);
  Lengths(std::shared_ptr<const void> keep, std::span<const std::int32_t> lengths);

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  /// Of sample `id`, which must be one.
  [[nodiscard]] std::int64_t operator[](SampleId id) const noexcept {
    const auto at = static_cast<std::size_t>(id.value);
    return narrow_ != nullptr ? narrow_[at] : wide_[at];
  }
  /// Has memory look it up while others are asked for.
  void prefetch(SampleId id) const noexcept {
    const auto at = static_cast<std::size_t>(id.value);
    const void* const there = narrow_ != nullptr ? static_cast<const void*>(narrow_ + at) : wide_ + at;
    __builtin_prefetch(there);
  }
  /// The longest; 0 of none.
  [[nodiscard]] std::int64_t most() const noexcept { return most_; }
  [[nodiscard]] Fingerprint digest() const noexcept { return digest_; }
  friend bool operator==(const Lengths& a, const Lengths& b) noexcept { return a.digest_ == b.digest_; }

 private:
  template <typename T>
  void take(std::span<const T> lengths);

  std::shared_ptr<const void> keep_;
  const std::int32_t* narrow_ = nullptr;
  const std::int64_t* wide_ = nullptr;
  std::int64_t size_ = 0;
  std::int64_t most_ = 0;
  Fingerprint digest_;
};

/// Those of ragged field `field` of `source`: its rows. They are asked for once on each node, by all ranks
/// and `threads` of each together, and kept in memory that these share. **Collective** over `comm`; without
/// it, this process does all the work. Throws on all ranks what it throws on one:
/// - what Source::rows throws
/// - Error{not_found}: no such field; Error{invalid_argument}: it is not ragged
/// - Error{mismatch}: another number of samples, or field, on another rank
/// - Error{callback}: an impossible number of rows; Error{io}: no memory for them
Lengths lengths_of(const Communicator& comm, const Source& source, const std::string& field, int threads = 8);
Lengths lengths_of(const Source& source, const std::string& field, int threads = 8);

/// Of an NPY file of one dimension, of int32 or int64: mapped into memory, which ranks of a node share. It
/// must not be changed or cut while it is in use. Throws Error{not_found}, Error{io}, Error{corrupt} as files
/// do, Error{unsupported} for another type or shape, Error{invalid_argument} for a length below 0.
Lengths read_lengths(const std::string& path);

}  // namespace rota
