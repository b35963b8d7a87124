#pragma once

// Facts for a worker's own instance of a source. Next: source.hpp.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "rota/types.hpp"
#include "rota/world.hpp"

namespace rota {

/// Shards in ascending order: a list, or every n-th shard, which takes no memory. *Immutable.*
class ShardList {
 public:
  /// None.
  ShardList() = default;
  /// Sorts `shards`.
  explicit ShardList(std::vector<ShardId> shards);
  /// Shards first, first + stride, ... below `total`. Throws Error{invalid_argument} for a stride below 1.
  static ShardList every(std::int64_t stride, std::int64_t first, std::int64_t total);

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] ShardId operator[](std::int64_t i) const noexcept {
    return listed_.empty() ? ShardId{first_ + i * stride_} : listed_[static_cast<std::size_t>(i)];
  }
  [[nodiscard]] bool contains(ShardId shard) const noexcept;

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = ShardId;
    using difference_type = std::int64_t;
    using pointer = void;
    using reference = ShardId;
    Iterator(const ShardList& list, std::int64_t at) noexcept : list_(&list), at_(at) {}
    ShardId operator*() const noexcept { return (*list_)[at_]; }
    Iterator& operator++() noexcept {
      ++at_;
      return *this;
    }
    Iterator operator++(int) noexcept { return {*list_, at_++}; }
    friend bool operator==(const Iterator& a, const Iterator& b) noexcept { return a.at_ == b.at_; }

   private:
    const ShardList* list_;
    std::int64_t at_;
  };
  [[nodiscard]] Iterator begin() const noexcept { return {*this, 0}; }
  [[nodiscard]] Iterator end() const noexcept { return {*this, size_}; }
  friend bool operator==(const ShardList& a, const ShardList& b) noexcept;

 private:
  std::vector<ShardId> listed_;
  std::int64_t first_ = 0;
  std::int64_t stride_ = 1;
  std::int64_t size_ = 0;
};

/// Thread `worker` of the `workers` of a rank. Without worker threads, the caller's thread is worker 0 of 1.
struct WorkerInfo {
  World world = {};
  int worker = 0;
  int workers = 1;
  /// The shards that this worker reads.
  /// - Of a Loader: shards of its order, the same for each dataset of a mixture. All of them, unless ranks or
  ///   workers are split by shard.
  /// - Of a StreamLoader: the shards that it reads now.
  ShardList shards = {};
  friend bool operator==(const WorkerInfo&, const WorkerInfo&) = default;
};

}  // namespace rota
