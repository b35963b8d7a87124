#pragma once

// What a Snapshot holds.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rota/snapshot.hpp"

namespace rota::checkpoint {

/// A tensor, as far as this rank holds it.
struct LocalTensor {
  std::string name = {};
  DType dtype = DType::uint8;
  std::vector<std::int64_t> row_shape = {};
  std::int64_t row_bytes = 0;
  bool has_ranges = false;            ///< else the rows follow those of the lower ranks
  std::int64_t rows = 0;              ///< held here
  std::vector<RowRange> ranges = {};  ///< in the order of `data`, none of them empty, neighbours joined
  std::span<const std::byte> data = {};
  std::vector<std::byte> owned = {};  ///< what `data` views, where the snapshot took it over
};

struct LocalBlob {
  std::string name;
  std::string bytes;
};

/// Memory for copies of tensors that a save in the background works on, kept from save to save: fresh memory
/// costs more than the copy. *One thread.*
class Staging {
 public:
  /// A copy of `bytes` as the copy number `index`, valid until the next of that number.
  [[nodiscard]] std::span<const std::byte> copy(std::size_t index, std::span<const std::byte> bytes);

 private:
  struct Buffer {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t capacity = 0;
  };
  std::vector<Buffer> buffers_;
};

/// Adds what Snapshot adds, with its checks.
class SnapshotData {
 public:
  /// Of `tensor` its rows and its bytes are given.
  void add_tensor(std::string_view name, DType dtype, std::vector<std::int64_t> row_shape,
                  LocalTensor tensor);
  void add_blob(std::string_view name, std::string bytes) { add("blob", blobs_, name, std::move(bytes)); }
  void add_rank_blob(std::string_view name, std::string bytes) {
    add("rank blob", rank_blobs_, name, std::move(bytes));
  }
  void add_same(std::string_view name, std::string lines) {
    add("what all ranks have, ", same_, name, std::move(lines));
  }

  /// Only one rank saves: each of its states that is known on every rank is to be whole.
  void set_alone() noexcept { is_alone_ = true; }
  [[nodiscard]] bool is_alone() const noexcept { return is_alone_; }
  /// A state is shared out over as many ranks.
  void share_out(int ranks) noexcept { ranks_ = std::max(ranks_, ranks); }
  [[nodiscard]] int ranks() const noexcept { return ranks_; }

  /// Has all tensors view copies in `staging`, but for those that it owns.
  void copy_views(Staging& staging);

  [[nodiscard]] const std::vector<LocalTensor>& tensors() const noexcept { return tensors_; }
  [[nodiscard]] const std::vector<LocalBlob>& blobs() const noexcept { return blobs_; }
  [[nodiscard]] const std::vector<LocalBlob>& rank_blobs() const noexcept { return rank_blobs_; }
  [[nodiscard]] const std::vector<LocalBlob>& same() const noexcept { return same_; }

 private:
  static void add(std::string_view kind, std::vector<LocalBlob>& blobs, std::string_view name,
                  std::string bytes);
  void claim_tensor_name(const std::string& name);

  std::vector<LocalTensor> tensors_;
  std::vector<LocalBlob> blobs_;
  std::vector<LocalBlob> rank_blobs_;
  std::vector<LocalBlob> same_;
  bool is_alone_ = false;
  int ranks_ = 1;
  std::set<std::string, std::less<>> names_;
};

/// What a name may be at most, in bytes; what its first component must not be, the group of what the file
/// keeps beside tensors; and whether `name` may be one.
inline constexpr std::size_t kMaxNameBytes = 1024;
inline constexpr std::string_view kOwnGroup = "rota";
[[nodiscard]] bool is_name(std::string_view name) noexcept;

/// a * b for sizes >= 0; -1 where that overflows.
[[nodiscard]] std::int64_t checked_product(std::int64_t a, std::int64_t b) noexcept;

}  // namespace rota::checkpoint

namespace rota {

struct Snapshot::Impl : checkpoint::SnapshotData {};

class SnapshotAccess {
 public:
  static const checkpoint::SnapshotData& data(const Snapshot& snapshot) { return snapshot.impl(); }
  static checkpoint::SnapshotData& data(Snapshot& snapshot) { return snapshot.impl(); }
};

}  // namespace rota
