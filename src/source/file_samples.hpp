#pragma once

// Which file holds a sample.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rota::internal {

/// How many samples each file holds. One thread while it grows, then *immutable*.
class FileSamples {
 public:
  /// A sample's file, and its number in there.
  struct SamplePlace {
    std::size_t file = 0;
    std::int64_t sample = 0;
  };

  /// Puts a file of `count` samples at the end. Throws Error{corrupt} beyond kMaxCount of all.
  void add(std::int64_t count);
  [[nodiscard]] std::int64_t total() const noexcept { return ends_.empty() ? 0 : ends_.back(); }
  [[nodiscard]] std::int64_t first(std::size_t file) const noexcept {
    return file == 0 ? 0 : ends_[file - 1];
  }
  [[nodiscard]] std::int64_t count(std::size_t file) const noexcept { return ends_[file] - first(file); }
  /// Of each file.
  [[nodiscard]] std::vector<std::int64_t> counts() const;
  /// How many samples `shards` groups of whole files have, of about as many files each; empty where there are
  /// fewer files than shards, or one.
  [[nodiscard]] std::vector<std::int64_t> shard_lengths(std::int64_t shards) const;
  /// Where sample `id` < total() is; `guess` costs nothing where it is the right file.
  [[nodiscard]] SamplePlace find(std::int64_t id, std::size_t guess = 0) const noexcept;

 private:
  std::vector<std::int64_t> ends_;  // the id after the last of each file
};

}  // namespace rota::internal
