#include "state.hpp"

#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace rota_faults {
namespace {

using rota::RowRange;

struct Tensor {
  std::string_view name;
  rota::DType dtype;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t element_bytes;
  bool is_scattered;
  [[nodiscard]] std::int64_t row_bytes() const { return columns * element_bytes; }
};

// The first spans pages and ends inside one.
constexpr std::array kTensors{Tensor{"model/weight", rota::DType::float64, 301, 9, 8, false},
                              Tensor{"loader/main/cursors", rota::DType::int64, 37, 2, 8, true},
                              Tensor{"model/bias", rota::DType::float32, 5, 3, 4, false},
                              Tensor{"model/none", rota::DType::uint8, 0, 4, 1, false}};

// Byte `at` of tensor or blob `index` at `step`.
std::byte byte_at(std::int64_t step, std::size_t index, std::int64_t at) {
  auto x = static_cast<std::uint64_t>(at) + (static_cast<std::uint64_t>(index) << 32) +
           (static_cast<std::uint64_t>(step) << 40);
  x = (x ^ (x >> 31)) * 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9U;
  return static_cast<std::byte>(x >> 56);
}

std::vector<std::byte> bytes_of(std::int64_t step, std::size_t index, std::span<const RowRange> ranges) {
  const std::int64_t row_bytes = kTensors.at(index).row_bytes();
  std::vector<std::byte> bytes;
  for (const auto& [first, count] : ranges) {
    for (std::int64_t i = 0; i < count * row_bytes; ++i) {
      bytes.push_back(byte_at(step, index, first * row_bytes + i));
    }
  }
  return bytes;
}

// Ranks 0, 1, 2, 3 ... of a world share rows as 3, 0, 1, 2, 3 ... do; a world of one has them all.
std::int64_t first_row(std::int64_t rows, int rank, int size) {
  const auto weight_before = [](int r) {
    std::int64_t sum = 0;
    for (int i = 0; i < r; ++i) sum += (i + 3) % 4;
    return sum;
  };
  return rows * weight_before(rank) / weight_before(size);
}

std::vector<RowRange> ranges_of(const Tensor& tensor, const rota::World& world) {
  if (!tensor.is_scattered) {
    const std::int64_t first = first_row(tensor.rows, world.rank, world.size);
    return {{first, first_row(tensor.rows, world.rank + 1, world.size) - first}};
  }
  std::vector<RowRange> ranges;
  for (std::int64_t row = world.rank; row < tensor.rows; row += world.size) ranges.push_back({row, 1});
  return ranges;
}

std::string blob_of(std::int64_t step) {
  std::string blob = "step " + std::to_string(step);
  for (std::int64_t i = 0; i < 6000; ++i) blob += static_cast<char>(byte_at(step, kTensors.size(), i));
  return blob;
}

std::string rank_blob_of(std::int64_t step, int rank) {
  return "rank " + std::to_string(rank) + " at step " + std::to_string(step);
}

std::string difference_of_blobs(const rota::Checkpoint& checkpoint) {
  const auto& info = checkpoint.info();
  if (checkpoint.blob("state") != blob_of(info.step)) return "the blob of the job differs";
  for (int rank = 0; rank < info.world_size; ++rank) {
    const auto blob = checkpoint.rank_blob("rng", {.rank = rank, .size = info.world_size});
    if (blob != rank_blob_of(info.step, rank)) return "the blob of rank " + std::to_string(rank) + " differs";
  }
  return {};
}

}  // namespace

rota::Snapshot make_state(std::int64_t step, const rota::World& world) {
  rota::Snapshot snapshot;
  for (std::size_t i = 0; i < kTensors.size(); ++i) {
    const Tensor& tensor = kTensors.at(i);
    const std::vector<RowRange> ranges = ranges_of(tensor, world);
    std::vector<std::byte> bytes = bytes_of(step, i, ranges);
    if (tensor.is_scattered) {
      snapshot.tensor(tensor.name, tensor.dtype, {tensor.columns}, ranges, std::move(bytes));
    } else {
      snapshot.tensor(tensor.name, tensor.dtype, {tensor.columns}, ranges.front().count, std::move(bytes));
    }
  }
  snapshot.blob("state", blob_of(step));
  snapshot.rank_blob("rng", rank_blob_of(step, world.rank));
  return snapshot;
}

std::string difference(const rota::Checkpoint& checkpoint) {
  const std::int64_t step = checkpoint.info().step;
  for (std::size_t i = 0; i < kTensors.size(); ++i) {
    const Tensor& tensor = kTensors.at(i);
    const RowRange all{0, tensor.rows};
    if (checkpoint.tensor(tensor.name).rows() != tensor.rows) {
      return std::string(tensor.name) + " has another number of rows";
    }
    std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.rows * tensor.row_bytes()));
    checkpoint.read(tensor.name, all, bytes);
    if (bytes != bytes_of(step, i, {&all, 1})) return std::string(tensor.name) + " differs";
  }
  return difference_of_blobs(checkpoint);
}

}  // namespace rota_faults
